#include "worker/service/worker_main.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "kernels/plugin_loader.h"
#include "program/exit_code.h"
#include "program/flags.h"
#include "program/logging.h"
#include "program/machine.h"
#include "program/processor.h"
#include "spdlog/spdlog.h"
#include "transport/connection_table.h"
#include "transport/grpc/grpc_runtime.h"
#include "worker/limits.h"
#include "worker/service/device_flags.h"
#include "worker/service/fetch_flags.h"
#include "worker/service/worker.h"
#include "worker/service/worker_flags.h"

namespace tutti::worker {
namespace {

// The exit code.
int Complain(const absl::Status& status) {
  SayLast(absl::StrCat("tutti-worker: ", std::string(status.message())));
  return ExitCodeOfStart(status);
}

// The device that is asked for is taken, though the machine or a limit of its container gives less.
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

// Told in the log, behind what was said before: nobody else can say it.
void SayLostDevice(const char* line) {
  spdlog::critical("{}", line);
  spdlog::default_logger()->flush();
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

}  // namespace

int WorkerMain(int argc, char** argv) {
  const pid_t parent = getppid();
  if (const absl::Status fit = CheckProcessor(); !fit.ok()) {
    Complain(fit);
    return kExitCannotStart;
  }
  WorkerFlags flags;
  FlagSet program("tutti-worker", "Serves one shard of a language model to a tutti-coordinator.");
  AddWorkerFlags(&program, &flags);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  kernels::LoadGpuKernelsAtOnce(flags.worker.numerics_class);
  if (const absl::Status status = ResolveWorkerFlags(&flags); !status.ok()) return Complain(status);
  SetUpLog(flags.worker.worker_id, flags.log_level, flags.log_format);
  transport::TakeLogOfProtobuf();
  // Before any thread exists, so that all inherit the mask and only sigwait sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (flags.exit_with_parent) ExitWithParent(parent);
  // It writes the environment, which no other thread may be reading.
  KeepNcclOnThisMachine(flags.worker.device_exchange);
  HeldDevice held;
  const absl::Status chosen = ResolveDevice(flags.share_devices, &flags.worker, &held);
  if (!chosen.ok()) return Complain(chosen);
  spdlog::info("descriptors: {}", transport::RaiseDescriptorLimit());
  WarnOfTooMuch(flags.worker);
  flags.worker.on_lost_device = SayLostDevice;
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
    spdlog::default_logger()->flush();
    std::_Exit(0);
  }
  return 0;
}

}  // namespace tutti::worker
