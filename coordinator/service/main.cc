// tutti-coordinator: splits a model over workers and serves clients.

#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <iostream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/flags.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/service/serve_flags.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace tutti::coordinator {
namespace {

constexpr char kFooter[] = R"(Examples:
  # two workers on this machine (see tutti up for one command that does all of this)
  tutti-coordinator --model models/demo --pipeline-parallel-size 2
  tutti-worker --model models/demo --worker-id w0 --listen 127.0.0.1:50060 --peer w1=127.0.0.1:50061
  tutti-worker --model models/demo --worker-id w1 --listen 127.0.0.1:50061 --peer w0=127.0.0.1:50060

Every option is also read from the environment (TUTTI_MODEL, …) and from --config FILE.
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for wrong options.)";

// gRPC 1.51 never serves again after it once ran out of descriptors: allow as many as the system
// does.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  spdlog::debug("file descriptors: {}", static_cast<uint64_t>(limit.rlim_cur));
}

absl::Status Serve(ServeFlags flags, const sigset_t& signals) {
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
  // A length that is given is meant to be used.
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
  ServeFlags flags;
  FlagSet program("tutti-coordinator",
                  "Splits one language model over worker processes and serves it over gRPC.");
  AddServeFlags(&program, &flags);
  program.AddFooter(kFooter);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
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
