// tutti-coordinator: splits a model over workers and serves clients.

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/numerics_revision.h"
#include "coordinator/limits.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/service/draft_model.h"
#include "coordinator/service/serve_flags.h"
#include "coordinator/service/serve_layout.h"
#include "door/heap_trimmer.h"
#include "model/hub_cache.h"
#include "model/quantise_choice.h"
#include "program/daemon.h"
#include "program/exit_code.h"
#include "program/flags.h"
#include "spdlog/spdlog.h"
#include "transport/connection_table.h"
#include "transport/grpc/grpc_runtime.h"

namespace tutti::coordinator {
namespace {

constexpr char kFooter[] = R"(Examples:
  # two workers on this machine (see tutti up for one command that does all of this)
  tutti-coordinator --model models/demo --pipeline-parallel-size 2
  tutti-worker --model models/demo --worker-id w0 --peer w1
  tutti-worker --model models/demo --worker-id w1 --peer w0
  # for workers on other machines, with what `tutti certs issue` has made
  tutti-coordinator --model models/demo --certs certs

Every option is also read from the environment (TUTTI_MODEL, …) and from --config FILE.
Exit codes: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for options, files or a model that
cannot be right, 3 when it has led (--etcd, --standby-lock) and leads no more: start it again, to
stand by.)";

// Ends the process without a word to its workers, which obey another by now or soon, and to its
// clients, which go on there.
[[noreturn]] void LeadNoMore(const std::string& why) {
  spdlog::critical("this coordinator leads no more, and ends: {}", why);
  spdlog::default_logger()->flush();
  std::_Exit(kExitLeadsNoMore);
}

// Where guesses come from unless a request says otherwise.
absl::Status SetGuesses(const ServeFlags& flags, const ServedModel& model, EngineOptions* engine) {
  const bool has_draft = !flags.draft_model.empty();
  if (flags.speculation == "draft" && !has_draft) {
    return absl::InvalidArgumentError("--speculation draft needs a --draft-model");
  }
  if (has_draft) {
    TUTTI_ASSIGN_OR_RETURN(DraftModel draft, LoadDraftModel(flags.draft_model, model));
    spdlog::info("{}", draft.introduction);
    engine->draft = std::make_shared<model::ModelConfig>(std::move(draft.config));
    engine->draft_fingerprint = std::move(draft.fingerprint);
  }
  const std::string from = !flags.speculation.empty() ? flags.speculation
                           : has_draft                ? "draft"
                                                      : "lookup";
  engine->guesses_max = from == "off" ? 0 : kGuessesMax;
  engine->drafts_max = from == "draft" ? kGuessesMax : 0;
  return absl::OkStatus();
}

absl::Status Serve(ServeFlags flags, Daemon* daemon) {
  const SystemClock clock;
  TUTTI_ASSIGN_OR_RETURN(const std::string folder, model::FindModel(flags.model, flags.revision));
  TUTTI_ASSIGN_OR_RETURN(
      std::unique_ptr<ServedModel> model,
      ServedModel::Load(folder, flags.served_model_name, flags.max_model_len, flags.chat_template));
  EngineOptions& engine = flags.options.engine;
  engine.build = BuildStamp();
  engine.numerics_class = ToldClass(engine.numerics_class);
  flags.options.vllm_metrics = flags.metrics_alias == "vllm";
  engine.partial_recompute = flags.partial_recompute == "on";
  TUTTI_RETURN_IF_ERROR(SetGuesses(flags, *model, &engine));
  engine.beat_interval = std::max<Duration>(engine.lease / 6, std::chrono::milliseconds(50));
  if (engine.block_size % 16 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--block-size ", engine.block_size,
                                                   " is not a multiple of 16; write ",
                                                   (engine.block_size + 15) / 16 * 16));
  }
  // A length that is given is meant to be used.
  engine.kv_tokens_min = std::min(flags.max_model_len, model->max_model_len);
  TUTTI_RETURN_IF_ERROR(model::ApplyQuantise(flags.quantise, &model->config));
  model->config.whole_experts =
      flags.layout.expert_split == "expert" && model->config.has_experts();
  TUTTI_RETURN_IF_ERROR(ReadLayout(flags.layout, model->config, &engine));
  TUTTI_ASSIGN_OR_RETURN(flags.options.lease, MakeLease(flags.lease, engine.cluster_id, &clock));
  flags.options.on_leads_no_more = LeadNoMore;
  spdlog::info("model '{}': {}, {} layers, context {}", model->name, model->config.architecture,
               model->config.num_layers, model->max_model_len);
  if (!flags.quantise.scheme.empty()) {
    spdlog::info("codes are made of its matrices while workers load them: {}",
                 model::DescribeFormats(model->config.quant, model->config.num_layers));
  }
  const door::HeapTrimmer trimmer;
  Coordinator coordinator(std::move(model), flags.options);
  TUTTI_RETURN_IF_ERROR(coordinator.Start());
  spdlog::info("clients at {}, workers at {}, operators at {}; waiting for workers",
               coordinator.address(), flags.options.peer_listen, coordinator.admin_address());
  daemon->AwaitEnd("draining");
  coordinator.Shutdown(flags.daemon.drain_timeout, [daemon] { return daemon->hurried(); });
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Daemon daemon("tutti-coordinator");
  if (!daemon.can_run()) return kExitCannotStart;
  ServeFlags flags;
  FlagSet program("tutti-coordinator",
                  "Splits one language model over worker processes and serves it over gRPC.");
  AddServeFlags(&program, &flags);
  program.AddFooter(kFooter);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (const absl::Status read = ReadCertificateFolder(program, &flags); !read.ok()) {
    return daemon.Complain(read);
  }
  daemon.Begin("coordinator", flags.daemon);
  transport::TakeLogOfProtobuf();
  spdlog::info("descriptors: {}", transport::RaiseDescriptorLimit());
  const absl::Status served = Serve(std::move(flags), &daemon);
  return served.ok() ? 0 : daemon.Complain(served);
}

}  // namespace
}  // namespace tutti::coordinator

int main(int argc, char** argv) { return tutti::coordinator::Main(argc, argv); }
