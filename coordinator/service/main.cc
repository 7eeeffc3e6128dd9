// tutti-coordinator: splits a model over workers and serves clients.

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/byte_size.h"
#include "base/numerics_revision.h"
#include "coordinator/limits.h"
#include "coordinator/service/coordinator.h"
#include "coordinator/service/serve_flags.h"
#include "coordinator/service/serve_layout.h"
#include "program/exit_code.h"
#include "program/flags.h"
#include "program/logging.h"
#include "program/processor.h"
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

// Whether a second signal has come, or the parent has ended that this process ends with.
class Hurry {
 public:
  Hurry(const sigset_t& signals, std::optional<pid_t> parent)
      : signals_(signals), parent_(parent) {}
  bool operator()() {
    const timespec none = {};
    const bool told = sigtimedwait(&signals_, nullptr, &none) > 0;
    hurried_ |= told && clock_.Now() >= begin_ + kOneSignal;
    hurried_ |= parent_.has_value() && getppid() != *parent_;
    return hurried_;
  }

 private:
  const sigset_t signals_;
  const std::optional<pid_t> parent_;
  const SystemClock clock_{};
  const Instant begin_ = clock_.Now();
  bool hurried_ = false;
};

// Ends the process without a word to its workers, which obey another by now or soon, and to its
// clients, which go on there.
[[noreturn]] void LeadNoMore(const std::string& why) {
  spdlog::critical("this coordinator leads no more, and ends: {}", why);
  spdlog::default_logger()->flush();
  std::_Exit(kExitLeadsNoMore);
}

absl::Status Serve(ServeFlags flags, const sigset_t& signals, pid_t parent) {
  const SystemClock clock;
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<ServedModel> model,
                         ServedModel::Load(flags.model, flags.served_model_name,
                                           flags.max_model_len, flags.chat_template));
  EngineOptions& engine = flags.options.engine;
  engine.build = BuildStamp();
  engine.numerics_class = ToldClass(engine.numerics_class);
  engine.lease = std::chrono::milliseconds(flags.lease_ms);
  engine.itl_target = std::chrono::milliseconds(flags.itl_target_ms);
  const auto seconds = [](double value) {
    return std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(std::min(value, 1e7)));
  };
  engine.max_wait = seconds(flags.max_wait_s);
  engine.recovery_timeout = seconds(flags.recovery_timeout_s);
  engine.reform_after = seconds(flags.reform_after_s);
  flags.options.vllm_metrics = flags.metrics_alias == "vllm";
  engine.partial_recompute = flags.partial_recompute == "on";
  if (!flags.kept_rows.empty()) {
    TUTTI_ASSIGN_OR_RETURN(engine.kept_rows_bytes, ParseBytes(flags.kept_rows));
  }
  engine.beat_interval = std::chrono::milliseconds(std::max<int64_t>(flags.lease_ms / 6, 50));
  if (engine.block_size % 16 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--block-size ", engine.block_size,
                                                   " is not a multiple of 16; write ",
                                                   (engine.block_size + 15) / 16 * 16));
  }
  // A length that is given is meant to be used.
  engine.kv_tokens_min = std::min(flags.max_model_len, model->max_model_len);
  model->config.whole_experts =
      flags.layout.expert_split == "expert" && model->config.has_experts();
  TUTTI_RETURN_IF_ERROR(ReadLayout(flags.layout, model->config, &engine));
  TUTTI_ASSIGN_OR_RETURN(flags.options.lease, MakeLease(flags.lease, engine.cluster_id, &clock));
  flags.options.on_leads_no_more = LeadNoMore;
  spdlog::info("model '{}': {}, {} layers, context {}", model->name, model->config.architecture,
               model->config.num_layers, model->max_model_len);
  const auto grace =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.drain_timeout_s));
  Coordinator coordinator(std::move(model), flags.options);
  TUTTI_RETURN_IF_ERROR(coordinator.Start());
  spdlog::info("clients at {}, workers at {}, operators at {}; waiting for workers",
               coordinator.address(), flags.options.peer_listen, coordinator.admin_address());
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("{}: draining", signal == SIGINT ? "SIGINT" : "SIGTERM");
  Hurry hurry(signals, flags.exit_with_parent ? std::optional<pid_t>(parent) : std::nullopt);
  coordinator.Shutdown(grace, [&hurry] { return hurry(); });
  return absl::OkStatus();
}

// The exit code.
int Complain(const absl::Status& status) {
  SayLast(absl::StrCat("tutti-coordinator: ", std::string(status.message())));
  return ExitCodeOfStart(status);
}

int Main(int argc, char** argv) {
  const pid_t parent = getppid();
  if (const absl::Status fit = CheckProcessor(); !fit.ok()) {
    Complain(fit);
    return kExitCannotStart;
  }
  ServeFlags flags;
  FlagSet program("tutti-coordinator",
                  "Splits one language model over worker processes and serves it over gRPC.");
  AddServeFlags(&program, &flags);
  program.AddFooter(kFooter);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (const absl::Status read = ReadCertificateFolder(program, &flags); !read.ok()) {
    return Complain(read);
  }
  SetUpLog("coordinator", flags.log_level, flags.log_format);
  transport::TakeLogOfProtobuf();
  // Before any thread exists, so that all inherit the mask and only sigwait sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.exit_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  spdlog::info("descriptors: {}", transport::RaiseDescriptorLimit());
  const absl::Status served = Serve(std::move(flags), signals, parent);
  return served.ok() ? 0 : Complain(served);
}

}  // namespace
}  // namespace tutti::coordinator

int main(int argc, char** argv) { return tutti::coordinator::Main(argc, argv); }
