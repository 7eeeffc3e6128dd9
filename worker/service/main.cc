// tutti-worker: serves one shard of a model to a coordinator.

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/build_info.h"
#include "base/byte_size.h"
#include "base/exit_code.h"
#include "base/flags.h"
#include "base/logging.h"
#include "base/machine.h"
#include "base/processor.h"
#include "spdlog/spdlog.h"
#include "transport/connection_table.h"
#include "transport/private_folder.h"
#include "worker/limits.h"
#include "worker/service/fetch_flags.h"
#include "worker/service/worker.h"

namespace tutti::worker {
namespace {

struct Flags {
  WorkerOptions worker;
  std::string coordinators;
  std::vector<std::string> peers;
  std::string peers_file;
  std::string memory;
  std::string speed = "auto";
  std::string device_exchange = "machine";
  std::string cuda_graphs = "on";
  std::string cuda_early_kernels = "on";
  std::string log_level = "info";
  std::string log_format = "text";
  double drain_timeout_s = kDrainTimeoutS;
  bool exit_with_parent = false;
};

constexpr char kFooter[] = R"(Examples:
  # a pipeline of two on this machine (see tutti up for one command that does all of this)
  tutti-coordinator --model models/demo --pipeline-parallel-size 2
  tutti-worker --model models/demo --worker-id w0 --peer w1
  tutti-worker --model models/demo --worker-id w1 --peer w0
  # one on a machine without the checkpoint
  tutti-worker --worker-id w2 --coordinator node0:50052 --cluster-secret-file secret

Every option is also read from the environment (TUTTI_MODEL, TUTTI_COORDINATOR, ...) and from
--config FILE.
Exit codes: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for options, files or a model that
cannot be right.)";

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "worker";
}

void AddClusterFlags(FlagSet* set, Flags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--model",
       .variable = &worker.model_dir,
       .help =
           "Directory of the HuggingFace checkpoint; unset: this worker's part of it comes from "
           "the coordinator"},
      {.names = "--model-cache",
       .variable = &worker.cache_dir,
       .help = "Folder, of this worker alone, that keeps what came from the coordinator; unset: "
               "named by --worker-id in $XDG_CACHE_HOME/tutti/weights or ~/.cache/tutti/weights"},
      {.names = "--coordinator",
       .variable = &flags->coordinators,
       .help = "Where the coordinator takes workers: host:port or unix:/path; with others that "
               "stand by, all of them with commas between",
       .check = IsAddresses(),
       .show_default = true},
      {.names = "--listen",
       .variable = &worker.listen,
       .help = "Where other workers dial this one; unset: a socket named by --worker-id in "
               "$XDG_RUNTIME_DIR/tutti or /tmp/tutti-UID",
       .environment = "TUTTI_WORKER_LISTEN",
       .check = IsListenAddress()},
      {.names = "--worker-id",
       .variable = &worker.worker_id,
       .help = "This worker's name, unique in its cluster",
       .show_default = true},
      {.names = "--peer",
       .variable = &flags->peers,
       .help = "NAME=ADDRESS of another worker; may be repeated. NAME alone: at its usual socket "
               "on this machine"},
      {.names = "--peers",
       .variable = &flags->peers_file,
       .help = "File of other workers, a line NAME ADDRESS each"},
      {.names = "--cluster-secret-file",
       .variable = &worker.secret_file,
       .help = "File of the secret that all processes of the cluster know, 32 to 4096 bytes that "
               "its owner alone can read; needed over TCP without certificates"},
      {.names = "--cluster-id",
       .variable = &worker.cluster_id,
       .help = "Must be the coordinator's"},
  });
}

void AddDeviceFlags(FlagSet* set, Flags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--memory",
       .variable = &flags->memory,
       .help = "For weights, KV cache and work, such as 4GiB; unset or 0: 90 % of what is "
               "available"},
      {.names = "--threads",
       .variable = &worker.threads,
       .help = "Compute threads; 0: all CPUs it may use",
       .check = IntegerIn(0, 512),
       .show_default = true},
      {.names = "--device",
       .variable = &worker.device,
       .help = "cpu, cuda:N (GPU number N) or reference (slow and plain, for tests)",
       .show_default = true},
      {.names = "--cuda-graphs",
       .variable = &flags->cuda_graphs,
       .help = "on, or off: every kernel of a GPU starts by itself; slower, the same bits",
       .check = OneOf("on,off"),
       .show_default = true},
      {.names = "--cuda-early-kernels",
       .variable = &flags->cuda_early_kernels,
       .help = "on, or off: no kernel of a GPU begins before the one before has ended; slower, "
               "the same bits",
       .check = OneOf("on,off"),
       .show_default = true},
      {.names = "--shared-memory-dir",
       .variable = &worker.shared_memory_dir,
       .help = "Ranks of a stage that see the same folder exchange through memory in it; empty: "
               "over their links",
       .show_default = true},
      {.names = "--device-exchange",
       .variable = &flags->device_exchange,
       .help = "Which workers' GPUs exchange directly, through NCCL: off, machine (those of one "
               "machine) or network (others too; NCCL neither encrypts nor authenticates). "
               "Otherwise through the host",
       .check = OneOf("off,machine,network"),
       .show_default = true},
  });
}

void AddSpeedFlags(FlagSet* set, Flags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--speed",
       .variable = &flags->speed,
       .help = "What the coordinator is told of this worker's speed: auto (CPUs measure at start, "
               "0.2 s; GPUs say nothing), off, or 900GB/s@71Tflop/s (reading weights, multiplying)",
       .show_default = true},
      {.names = "--speed-file",
       .variable = &worker.speed_file,
       .help = "Where workers of this machine leave what they measured; they do so one after "
               "another, and equal ones once"},
      {.names = "--numerics-class",
       .variable = &worker.numerics_class,
       .help = "Compute in this class (cpu-f32, without a revision); unset: the machine's best"},
  });
}

void AddProcessFlags(FlagSet* set, Flags* flags) {
  WorkerOptions& worker = flags->worker;
  set->Add({
      {.names = "--tls-cert",
       .variable = &worker.tls.certificate,
       .help = "PEM certificate of this worker"},
      {.names = "--tls-key", .variable = &worker.tls.key, .help = "PEM key of that certificate"},
      {.names = "--tls-ca",
       .variable = &worker.tls.authority,
       .help = "PEM authority that signed the peers'"},
      {.names = "--metrics",
       .variable = &flags->worker.metrics_listen,
       .help = "Serve /metrics for Prometheus, and /healthz, at this address and port, over plain "
               "HTTP to everybody who reaches it; unset: nowhere",
       .environment = "TUTTI_WORKER_METRICS"},
      {.names = "--log-level",
       .variable = &flags->log_level,
       .help = "trace, debug, info, warn or error",
       .check = OneOf("trace,debug,info,warn,error"),
       .show_default = true},
      {.names = "--log-format",
       .variable = &flags->log_format,
       .help = "Of the log on stderr: text, or json for an object a line",
       .check = OneOf(kLogFormats),
       .show_default = true},
      {.names = "--drain-timeout",
       .variable = &flags->drain_timeout_s,
       .help = "Seconds a worker that is told to stop serves what runs; told twice, it stops",
       .check = NotNegative(),
       .show_default = true},
      {.names = "--exit-with-parent",
       .variable = &flags->exit_with_parent,
       .help = "End when the process that started this one ends"},
  });
}

void AddFlags(FlagSet* set, Flags* flags) {
  flags->coordinators = absl::StrCat("unix:", transport::RuntimeFolder(), "/coordinator.sock");
  flags->worker.worker_id = HostName();
  set->AddVersion(BuildStamp());
  set->ReadEnvironment(kEnvironmentPrefix);
  set->AddFile("Read options from this file (TOML; the keys are the options without --)");
  set->AddFooter(kFooter);
  AddClusterFlags(set, flags);
  AddDeviceFlags(set, flags);
  AddSpeedFlags(set, flags);
  AddProcessFlags(set, flags);
}

kernels::DeviceExchangeScope ScopeNamed(std::string_view name) {
  if (name == "off") return kernels::DeviceExchangeScope::kOff;
  return name == "network" ? kernels::DeviceExchangeScope::kNetwork
                           : kernels::DeviceExchangeScope::kMachine;
}

// Where a worker listens on this machine unless it is told otherwise.
std::string UsualSocket(const std::string& worker_id) {
  return absl::StrCat("unix:", transport::RuntimeFolder(), "/worker-", worker_id, ".sock");
}

// Checks that concern more than one flag, and the values that follow from the flags.
absl::Status Resolve(Flags* flags) {
  TUTTI_RETURN_IF_ERROR(ResolveModel(&flags->worker));
  flags->worker.coordinators = absl::StrSplit(flags->coordinators, ',', absl::SkipWhitespace());
  if (flags->worker.coordinators.empty() || flags->worker.coordinators.size() > kCoordinatorsMax) {
    return absl::InvalidArgumentError(absl::StrCat("--coordinator \"", flags->coordinators,
                                                   "\": expected 1 to ", kCoordinatorsMax,
                                                   " addresses with commas between"));
  }
  for (std::string peer : flags->peers) {
    if (peer.find('=') == std::string::npos) peer = absl::StrCat(peer, "=", UsualSocket(peer));
    TUTTI_RETURN_IF_ERROR(Annotate(flags->worker.peers.Add(peer), "--peer"));
  }
  if (flags->worker.listen.empty()) flags->worker.listen = UsualSocket(flags->worker.worker_id);
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
  // The memory of a GPU is read from its driver; see Worker::Start.
  if (flags->worker.memory_bytes == 0 && !flags->worker.device.starts_with("cuda")) {
    const int64_t available = AvailableMemoryBytes();
    if (available == 0) {
      return absl::UnavailableError(
          "--memory: no memory is free here, or the system does not say how much; give the option");
    }
    flags->worker.memory_bytes =
        static_cast<int64_t>(kMemoryShare * static_cast<double>(available));
  }
  return absl::OkStatus();
}

// The exit code.
int Complain(const absl::Status& status) {
  std::cerr << "tutti-worker: " << status.message() << "\n";
  return ExitCodeOfStart(status);
}

// What is asked for is taken, though the machine or a limit of its container gives less.
void WarnOfTooMuch(const WorkerOptions& worker) {
  if (worker.threads > CpuCount()) {
    spdlog::warn("--threads {}: only {} CPUs may be used here, so threads will wait for each other",
                 worker.threads, CpuCount());
  }
  const int64_t available = AvailableMemoryBytes();
  if (worker.device.starts_with("cuda") || available == 0 || worker.memory_bytes <= available) {
    return;
  }
  spdlog::warn(
      "--memory {}: only {} are free here, so this worker may be killed for want of memory",
      FormatBytes(worker.memory_bytes), FormatBytes(available));
}

// NCCL listens on the first interface it finds, to any host. Ranks of one machine need loopback
// only.
void KeepNcclOnThisMachine(kernels::DeviceExchangeScope scope) {
  if (scope != kernels::DeviceExchangeScope::kNetwork) setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

// SIGTERM when the parent ends, also when it ended before this call.
void ExitWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) std::raise(SIGTERM);
}

// Serves until the coordinator lets go, for `grace` and a margin at most. A second signal hurries,
// and a parent that has ended needs nothing any more.
void LeaveInOrder(Worker* worker, Duration grace, const sigset_t& signals,
                  std::optional<pid_t> parent) {
  const SystemClock clock;
  const Instant begin = clock.Now();
  worker->Leave(grace);
  const timespec look = {.tv_sec = 0, .tv_nsec = Duration(kLeaveLookInterval).count()};
  while (!worker->has_left() && clock.Now() < begin + grace + kLeaveMargin) {
    if (parent.has_value() && getppid() != *parent) return;
    const bool told = sigtimedwait(&signals, nullptr, &look) > 0;
    if (told && clock.Now() >= begin + kOneSignal) return spdlog::info("told again: stopping now");
  }
}

int Main(int argc, char** argv) {
  const pid_t parent = getppid();
  if (const absl::Status fit = CheckProcessor(); !fit.ok()) {
    Complain(fit);
    return kExitCannotStart;
  }
  Flags flags;
  FlagSet program("tutti-worker", "Serves one shard of a language model to a tutti-coordinator.");
  AddFlags(&program, &flags);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  if (const absl::Status status = Resolve(&flags); !status.ok()) return Complain(status);
  SetUpLog(flags.worker.worker_id, flags.log_level, flags.log_format);
  // Before any thread exists, so that all inherit the mask and only sigwait sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.exit_with_parent) ExitWithParent(parent);
  spdlog::info("descriptors: {}", transport::RaiseDescriptorLimit());
  WarnOfTooMuch(flags.worker);
  KeepNcclOnThisMachine(flags.worker.device_exchange);
  auto worker = Worker::Start(flags.worker, KeepOnStarting);
  if (absl::IsCancelled(worker.status())) {
    spdlog::info("{}", std::string(worker.status().message()));
    return 0;
  }
  if (!worker.ok()) return Complain(worker.status());
  int signal = 0;
  sigwait(&signals, &signal);
  spdlog::info("{}: leaving", signal == SIGINT ? "SIGINT" : "SIGTERM");
  LeaveInOrder(
      worker->get(),
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.drain_timeout_s)),
      signals, flags.exit_with_parent ? std::optional<pid_t>(parent) : std::nullopt);
  if (!(*worker)->Stop()) {
    spdlog::warn("leaving in the middle of loading");
    std::_Exit(0);
  }
  return 0;
}

}  // namespace
}  // namespace tutti::worker

int main(int argc, char** argv) { return tutti::worker::Main(argc, argv); }
