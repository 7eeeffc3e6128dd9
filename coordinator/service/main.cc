// tutti-coordinator: splits a model over workers and serves clients.

#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "coordinator/limits.h"
#include "coordinator/service/coordinator.h"
#include "model/partition.h"
#include "placement/device_map.h"
#include "placement/layout_flags.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace tutti::coordinator {
namespace {

struct Flags {
  std::string model;
  std::string served_model_name;
  std::string device_map;
  std::string max_memory;
  std::string stages;  // unset: 1, or as many as a device map says
  std::string ranks;   // unset: 1
  std::string pipelines = "auto";
  std::string layout;
  std::string log_level = "info";
  std::string expert_split = "width";
  int32_t max_model_len = 0;
  int64_t lease_ms = 1500;
  double shutdown_grace_s = 10;
  bool exit_with_parent = false;
  CoordinatorOptions options;
};

constexpr char kFooter[] = R"(Examples:
  # two workers on this machine (see tutti up for one command that does all of this)
  tutti-coordinator --model models/demo --pipeline-parallel-size 2
  tutti-worker --model models/demo --worker-id w0 --listen 127.0.0.1:50060 --peer w1=127.0.0.1:50061
  tutti-worker --model models/demo --worker-id w1 --listen 127.0.0.1:50061 --peer w0=127.0.0.1:50060

Every option is also read from the environment (TUTTI_MODEL, …) and from --config FILE.
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for wrong options.)";

// The same names and meanings as those of `tutti plan`.
void AddLayoutFlags(CLI::App* app, Flags* flags) {
  app->add_option("--pipeline-parallel-size", flags->stages,
                  "Stages the layers are split over, or auto: chosen from the workers that join; "
                  "unset: 1, or what the device map says")
      ->envname("TUTTI_PIPELINE_PARALLEL_SIZE");
  app->add_option("--tensor-parallel-size", flags->ranks,
                  "Ranks each layer is split over: 1, 2, 4 or 8 workers per stage, or auto; of "
                  "each stage: "
                  "1,2; unset: 1")
      ->envname("TUTTI_TENSOR_PARALLEL_SIZE");
  app->add_option("--expert-split", flags->expert_split,
                  "How ranks share the experts of a mixture: the width of each, or whole experts. "
                  "The answers are the same, to the bit")
      ->envname("TUTTI_EXPERT_SPLIT")
      ->check(CLI::IsMember({"width", "expert"}))
      ->capture_default_str();
  app->add_option("--pipelines", flags->pipelines,
                  "Copies of the model, each of as many stages; auto: as many as the workers allow")
      ->envname("TUTTI_PIPELINES")
      ->capture_default_str();
  app->add_option("--layout", flags->layout,
                  "auto: stages and ranks too are chosen from the workers that join")
      ->envname("TUTTI_LAYOUT")
      ->check(CLI::IsMember({"auto"}));
  app->add_option("--device-map", flags->device_map,
                  "auto, balanced, balanced_low_0, sequential, a HuggingFace device map (JSON), or "
                  "a file [{\"worker\": \"w0\", \"layers\": 12}, …], in order of stages")
      ->envname("TUTTI_DEVICE_MAP");
  app->add_option("--max-memory", flags->max_memory,
                  "What of each worker may be used, by number or name: 0=20GiB,w3=40GiB; others "
                  "are left out")
      ->envname("TUTTI_MAX_MEMORY");
  app->add_option("--min-workers", flags->options.engine.min_workers,
                  "Form nothing before so many workers have joined; 0: no such number")
      ->envname("TUTTI_MIN_WORKERS")
      ->check(CLI::Range(0, static_cast<int>(kWorkerLinksMax)))
      ->capture_default_str();
}

void AddFlags(CLI::App* app, Flags* flags) {
  EngineOptions& engine = flags->options.engine;
  app->set_version_flag("--version", std::string(BuildStamp()));
  app->set_config("--config", "", "Read options from this file (INI or TOML)");
  app->footer(kFooter);
  app->add_option("--model", flags->model, "Directory of the HuggingFace checkpoint")
      ->envname("TUTTI_MODEL")
      ->required();
  app->add_option("--served-model-name", flags->served_model_name,
                  "Name clients ask for (default: the directory's)")
      ->envname("TUTTI_SERVED_MODEL_NAME");
  app->add_option("--listen", flags->options.listen,
                  "Address of the public API; port 0 lets the system choose")
      ->envname("TUTTI_LISTEN")
      ->capture_default_str();
  app->add_option("--peer-listen", flags->options.peer_listen,
                  "Address workers dial; may be unix:/path")
      ->envname("TUTTI_PEER_LISTEN")
      ->capture_default_str();
  app->add_option("--tls-cert", flags->options.tls_certificate,
                  "PEM certificate of the public port");
  app->add_option("--tls-key", flags->options.tls_key, "PEM key of the public port");
  app->add_option("--tls-client-ca", flags->options.tls_client_ca,
                  "PEM authority that client certificates need");
  transport::TlsFiles& peer_tls = flags->options.peer_tls;
  app->add_option("--peer-tls-cert", peer_tls.certificate, "PEM certificate of the workers' port");
  app->add_option("--peer-tls-key", peer_tls.key, "PEM key of that certificate");
  app->add_option("--peer-tls-ca", peer_tls.authority, "PEM authority that signed the workers'");
  app->add_option("--ready-file", flags->options.ready_file,
                  "Write the public address here, as JSON, once it listens");
  app->add_option("--cluster-id", engine.cluster_id, "Workers must be started with the same")
      ->envname("TUTTI_CLUSTER_ID");
  AddLayoutFlags(app, flags);
  app->add_option("--block-size", engine.block_size, "Tokens per KV block, a multiple of 16")
      ->check(CLI::Range(16, 1024))
      ->capture_default_str();
  app->add_option("--kv-tokens", engine.kv_tokens_max,
                  "KV room in tokens at most; 0: what memory allows")
      ->envname("TUTTI_KV_TOKENS")
      ->capture_default_str();
  app->add_flag("--enable-prefix-caching,!--no-prefix-caching", engine.enable_prefix_caching,
                "Keep the KV of prompts and answers for requests that begin with the same tokens")
      ->envname("TUTTI_ENABLE_PREFIX_CACHING")
      ->capture_default_str();
  app->add_option("--max-batch-tokens", engine.max_batch_tokens, "Rows of the largest step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app->add_option("--chunk-tokens", engine.chunk_tokens, "Rows of one prompt in a step at most")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app->add_option("--max-num-seqs", engine.max_sequences, "Sequences running at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app->add_option("--max-waiting", engine.max_waiting, "Requests waiting; more are refused")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app->add_flag(
      "--shared-cache-domain", flags->options.share_cache_domain,
      "Let what one tenant's prompts left in the KV cache serve all tenants: their timing "
      "then tells whether somebody has sent the same text before");
  app->add_option("--max-model-len", flags->max_model_len, "Context length; 0: the model's")
      ->envname("TUTTI_MAX_MODEL_LEN")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--numerics-class", engine.numerics_class, "Take workers of this class only");
  app->add_flag(
      "--mix-numerics", engine.mix_numerics,
      "Allow one pipeline of several numerics classes: answers then depend on the layout");
  app->add_option("--lease-ms", flags->lease_ms, "A worker without progress for so long is lost")
      ->check(CLI::Range(200, 600000))
      ->capture_default_str();
  app->add_option("--shutdown-grace", flags->shutdown_grace_s,
                  "Seconds running requests get to finish")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--log-level", flags->log_level, "trace, debug, info, warn or error")
      ->envname("TUTTI_LOG_LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}));
  app->add_flag("--exit-with-parent", flags->exit_with_parent,
                "End when the process that started this one ends");
}

// gRPC 1.51 never serves again after it once ran out of descriptors: take all the system gives.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  spdlog::debug("file descriptors: {}", static_cast<uint64_t>(limit.rlim_cur));
}

// How many stages there are of how many ranks, as far as flags and device map say it.
absl::Status ReadSizes(const Flags& flags, EngineOptions* engine) {
  const std::string otherwise = flags.layout.empty() ? "1" : flags.layout;
  auto ranks = placement::ParseRanks(flags.ranks.empty() ? otherwise : flags.ranks);
  if (!ranks.ok()) return Annotate(ranks.status(), "--tensor-parallel-size");
  engine->num_ranks = ranks->num_ranks;
  engine->stage_ranks = std::move(ranks->stage_ranks);
  const auto pipelines = placement::ParseSize(flags.pipelines);
  if (!pipelines.ok()) return Annotate(pipelines.status(), "--pipelines");
  engine->num_pipelines = *pipelines;
  const auto given = static_cast<int32_t>(engine->stage_ranks.size());
  if (flags.stages.empty()) {
    // A mode of Accelerate makes as many stages as there are workers.
    const bool one = flags.device_map.empty() && flags.layout.empty();
    engine->num_stages = given > 0 ? given : one ? 1 : 0;
    return absl::OkStatus();
  }
  const auto stages = placement::ParseSize(flags.stages);
  if (!stages.ok()) return Annotate(stages.status(), "--pipeline-parallel-size");
  engine->num_stages = *stages;
  if (given == 0 || given == *stages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--tensor-parallel-size ", flags.ranks, " is for ",
                                                 given, " stages, --pipeline-parallel-size is ",
                                                 flags.stages));
}

// Whether the model takes what was asked for.
absl::Status CheckLayout(const Flags& flags, const model::ModelConfig& model,
                         const EngineOptions& engine) {
  if (!engine.device_map.stages.empty()) {
    if (flags.stages.empty() && flags.ranks.empty() && engine.num_pipelines <= 1) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "--device-map FILE says itself how many stages there are and of how many workers, and is "
        "one pipeline; leave the sizes out");
  }
  if (engine.num_stages > model.num_layers) {
    return absl::InvalidArgumentError(absl::StrCat("--pipeline-parallel-size ", engine.num_stages,
                                                   ": the model has only ", model.num_layers,
                                                   " layers, which is the most"));
  }
  if (engine.num_ranks > 0) TUTTI_RETURN_IF_ERROR(model::CheckRanks(model, engine.num_ranks));
  for (const int32_t ranks : engine.stage_ranks)
    TUTTI_RETURN_IF_ERROR(model::CheckRanks(model, ranks));
  return absl::OkStatus();
}

absl::Status ReadLayout(const Flags& flags, const model::ModelConfig& model,
                        EngineOptions* engine) {
  TUTTI_RETURN_IF_ERROR(ReadSizes(flags, engine));
  TUTTI_ASSIGN_OR_RETURN(engine->device_map,
                         placement::ReadDeviceMap(flags.device_map, model, /*num_devices=*/-1));
  for (const std::string& note : engine->device_map.notes) spdlog::info("device map: {}", note);
  if (!flags.max_memory.empty()) {
    auto limits = placement::ParseMaxMemory(flags.max_memory);
    if (!limits.ok()) return Annotate(limits.status(), "--max-memory");
    engine->max_memory = *std::move(limits);
  }
  return CheckLayout(flags, model, *engine);
}

absl::Status Serve(Flags flags, const sigset_t& signals) {
  TUTTI_ASSIGN_OR_RETURN(
      std::unique_ptr<ServedModel> model,
      ServedModel::Load(flags.model, flags.served_model_name, flags.max_model_len));
  EngineOptions& engine = flags.options.engine;
  engine.build = BuildStamp();
  engine.lease = std::chrono::milliseconds(flags.lease_ms);
  engine.beat_interval = std::chrono::milliseconds(std::max<int64_t>(flags.lease_ms / 6, 50));
  if (engine.block_size % 16 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--block-size ", engine.block_size, " is not a multiple of 16"));
  }
  // Who names a length means to use it.
  engine.kv_tokens_min = std::min(flags.max_model_len, model->max_model_len);
  model->config.whole_experts = flags.expert_split == "expert" && model->config.has_experts();
  TUTTI_RETURN_IF_ERROR(ReadLayout(flags, model->config, &engine));
  spdlog::info("model '{}': {}, {} layers, context {}", model->name, model->config.architecture,
               model->config.num_layers, model->max_model_len);
  const auto grace =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.shutdown_grace_s));
  Coordinator coordinator(std::move(model), flags.options);
  TUTTI_RETURN_IF_ERROR(coordinator.Start());
  spdlog::info("clients at {}, workers at {}; waiting for workers", coordinator.address(),
               flags.options.peer_listen);
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("{}: draining", signal == SIGINT ? "SIGINT" : "SIGTERM");
  coordinator.Shutdown(grace);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Splits one language model over worker processes and serves it over gRPC.",
               "tutti-coordinator");
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("coordinator"));
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  // Before any thread exists, so that all inherit the mask and only sigwait sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.exit_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  RaiseDescriptorLimit();
  const absl::Status served = Serve(std::move(flags), signals);
  if (served.ok()) return 0;
  std::cerr << "tutti-coordinator: " << served.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace tutti::coordinator

int main(int argc, char** argv) { return tutti::coordinator::Main(argc, argv); }
