// tutti-worker: serves one shard of a model to a coordinator.

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/build_info.h"
#include "base/byte_size.h"
#include "base/machine.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"
#include "worker/service/worker.h"

namespace tutti::worker {
namespace {

struct Flags {
  WorkerOptions worker;
  std::vector<std::string> peers;
  std::string peers_file;
  std::string memory;
  std::string speed = "auto";
  std::string device_exchange = "machine";
  std::string cuda_graphs = "on";
  std::string cuda_early_kernels = "on";
  std::string log_level = "info";
  bool exit_with_parent = false;
};

constexpr char kFooter[] = R"(Examples:
  # a pipeline of two on this machine (see tutti up for one command that does all of this)
  tutti-coordinator --model models/demo --pipeline-parallel-size 2
  tutti-worker --model models/demo --worker-id w0 --listen 127.0.0.1:50060 \
    --peer w1=127.0.0.1:50061
  tutti-worker --model models/demo --worker-id w1 --listen 127.0.0.1:50061 \
    --peer w0=127.0.0.1:50060

Every option is also read from the environment (TUTTI_MODEL, TUTTI_COORDINATOR, ...) and from
--config FILE.
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for wrong options.)";

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "worker";
}

void AddFlags(CLI::App* app, Flags* flags) {
  WorkerOptions& worker = flags->worker;
  worker.coordinator = "127.0.0.1:50052";
  worker.listen = "127.0.0.1:50060";
  worker.worker_id = HostName();
  app->set_version_flag("--version", std::string(BuildStamp()));
  app->set_config("--config", "", "Read options from this file (INI or TOML)");
  app->footer(kFooter);
  app->add_option("--model", worker.model_dir, "Directory of the HuggingFace checkpoint")
      ->envname("TUTTI_MODEL")
      ->required();
  app->add_option("--coordinator", worker.coordinator,
                  "Where the coordinator takes workers: host:port or unix:/path")
      ->envname("TUTTI_COORDINATOR")
      ->capture_default_str();
  app->add_option("--listen", worker.listen, "Where the previous stage dials this worker")
      ->envname("TUTTI_WORKER_LISTEN")
      ->capture_default_str();
  app->add_option("--worker-id", worker.worker_id, "This worker's name, unique in its cluster")
      ->envname("TUTTI_WORKER_ID")
      ->capture_default_str();
  app->add_option("--peer", flags->peers, "NAME=ADDRESS of another worker; may be repeated")
      ->envname("TUTTI_PEER")
      ->expected(1)
      ->take_all();
  app->add_option("--peers", flags->peers_file, "File of other workers, a line NAME ADDRESS each")
      ->envname("TUTTI_PEERS");
  app->add_option("--cluster-id", worker.cluster_id, "Must be the coordinator's")
      ->envname("TUTTI_CLUSTER_ID");
  app->add_option("--memory", flags->memory,
                  "For weights, KV cache and work, such as 4GiB; unset or 0: 90 % of what is "
                  "available")
      ->envname("TUTTI_MEMORY");
  app->add_option("--threads", worker.threads, "Compute threads; 0: all CPUs it may use")
      ->envname("TUTTI_THREADS")
      ->check(CLI::Range(0, 512))
      ->capture_default_str();
  app->add_option("--device", worker.device,
                  "cpu, cuda:N (GPU number N) or reference (slow and plain, for tests)")
      ->envname("TUTTI_DEVICE")
      ->capture_default_str();
  app->add_option("--cuda-graphs", flags->cuda_graphs,
                  "on, or off: every kernel of a GPU starts by itself; slower, the same bits")
      ->envname("TUTTI_CUDA_GRAPHS")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app->add_option("--cuda-early-kernels", flags->cuda_early_kernels,
                  "on, or off: no kernel of a GPU begins before the one before has ended; slower, "
                  "the same bits")
      ->envname("TUTTI_CUDA_EARLY_KERNELS")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app->add_option("--shared-memory-dir", worker.shared_memory_dir,
                  "Ranks of a stage that see the same folder exchange through memory in it; empty: "
                  "over their links")
      ->envname("TUTTI_SHARED_MEMORY_DIR")
      ->capture_default_str();
  app->add_option("--device-exchange", flags->device_exchange,
                  "Which workers' GPUs exchange directly, through NCCL: off, machine (those of one "
                  "machine) or network (others too; NCCL neither encrypts nor authenticates). "
                  "Otherwise through the host")
      ->envname("TUTTI_DEVICE_EXCHANGE")
      ->check(CLI::IsMember({"off", "machine", "network"}))
      ->capture_default_str();
  app->add_option(
         "--speed", flags->speed,
         "What the coordinator is told of this worker's speed: auto (CPUs measure at start, "
         "0.2 s; GPUs say nothing), off, or 900GB/s@71Tflop/s (reading weights, multiplying)")
      ->envname("TUTTI_SPEED")
      ->capture_default_str();
  app->add_option("--speed-file", worker.speed_file,
                  "Where workers of this machine leave what they measured; they do so one after "
                  "another, and equal ones once")
      ->envname("TUTTI_SPEED_FILE");
  app->add_option("--numerics-class", worker.numerics_class,
                  "Compute in this class; unset: the machine's best")
      ->envname("TUTTI_NUMERICS_CLASS");
  app->add_option("--tls-cert", worker.tls.certificate, "PEM certificate of this worker")
      ->envname("TUTTI_TLS_CERT");
  app->add_option("--tls-key", worker.tls.key, "PEM key of that certificate")
      ->envname("TUTTI_TLS_KEY");
  app->add_option("--tls-ca", worker.tls.authority, "PEM authority that signed the peers'")
      ->envname("TUTTI_TLS_CA");
  app->add_option("--log-level", flags->log_level, "trace, debug, info, warn or error")
      ->envname("TUTTI_LOG_LEVEL")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error"}))
      ->capture_default_str();
  app->add_flag("--exit-with-parent", flags->exit_with_parent,
                "End when the process that started this one ends");
}

kernels::DeviceExchangeScope ScopeNamed(std::string_view name) {
  if (name == "off") return kernels::DeviceExchangeScope::kOff;
  return name == "network" ? kernels::DeviceExchangeScope::kNetwork
                           : kernels::DeviceExchangeScope::kMachine;
}

// What CLI11 cannot check.
absl::Status Resolve(Flags* flags) {
  for (const std::string& peer : flags->peers) {
    TUTTI_RETURN_IF_ERROR(Annotate(flags->worker.peers.Add(peer), "--peer"));
  }
  if (!flags->peers_file.empty()) {
    TUTTI_RETURN_IF_ERROR(Annotate(flags->worker.peers.AddFile(flags->peers_file), "--peers"));
  }
  flags->worker.device_exchange = ScopeNamed(flags->device_exchange);
  if (!flags->memory.empty()) {
    auto bytes = ParseBytes(flags->memory);
    if (!bytes.ok()) return Annotate(bytes.status(), "--memory");
    flags->worker.memory_bytes = *bytes;
  }
  flags->worker.cuda_graphs = flags->cuda_graphs == "on";
  flags->worker.cuda_early_kernels = flags->cuda_early_kernels == "on";
  // The probe's sizes are those of a CPU: a GPU would mostly show how soon it starts a kernel. The
  // reference backend is for tests, and slow enough that measuring would be felt.
  flags->worker.measure_speed = flags->speed == "auto" && flags->worker.device == "cpu";
  if (flags->speed != "auto" && flags->speed != "off") {
    auto speed = ParseSpeed(flags->speed);
    if (!speed.ok()) return Annotate(speed.status(), "--speed");
    flags->worker.speed = *speed;
  }
  // A GPU says itself how much it has; see Worker::Start.
  if (flags->worker.memory_bytes == 0 && !flags->worker.device.starts_with("cuda")) {
    const int64_t available = AvailableMemoryBytes();
    if (available == 0) {
      return absl::UnavailableError("--memory: the system does not say how much is free; give it");
    }
    flags->worker.memory_bytes =
        static_cast<int64_t>(kMemoryShare * static_cast<double>(available));
  }
  return absl::OkStatus();
}

int Complain(const absl::Status& status, int code) {
  std::cerr << "tutti-worker: " << status.message() << "\n";
  return code;
}

// NCCL listens on the first interface it finds, to anybody. Ranks of one machine need loopback
// only.
void KeepNcclOnThisMachine(kernels::DeviceExchangeScope scope) {
  if (scope != kernels::DeviceExchangeScope::kNetwork) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

// SIGTERM when the parent goes, also when it went before we asked.
void ExitWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) std::raise(SIGTERM);
}

int Main(int argc, char** argv) {
  const pid_t parent = getppid();
  Flags flags;
  CLI::App app("Serves one shard of a language model to a tutti-coordinator.", "tutti-worker");
  AddFlags(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const absl::Status status = Resolve(&flags); !status.ok()) return Complain(status, 2);
  spdlog::set_default_logger(spdlog::stderr_color_mt(flags.worker.worker_id));
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  // Before any thread exists, so that all inherit the mask and only sigwait sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.exit_with_parent) ExitWithParent(parent);
  KeepNcclOnThisMachine(flags.worker.device_exchange);
  auto worker = Worker::Start(flags.worker);
  if (!worker.ok()) return Complain(worker.status(), 1);
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("{}: leaving", signal == SIGINT ? "SIGINT" : "SIGTERM");
  if (!(*worker)->Stop()) {
    spdlog::warn("leaving in the middle of loading");
    std::_Exit(0);
  }
  return 0;
}

}  // namespace
}  // namespace tutti::worker

int main(int argc, char** argv) { return tutti::worker::Main(argc, argv); }
