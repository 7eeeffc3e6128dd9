#include "worker/service/worker_main.h"

#include <cstdlib>
#include <optional>

#include "base/byte_size.h"
#include "kernels/plugin_loader.h"
#include "program/daemon.h"
#include "program/exit_code.h"
#include "program/flags.h"
#include "program/machine.h"
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

// Serves until the coordinator lets go, for `grace` and a margin at most. A second signal hurries,
// and a parent that has ended needs nothing any more.
void LeaveInOrder(Worker* worker, Duration grace, Daemon* daemon) {
  const SystemClock clock;
  const Instant give_up = clock.Now() + grace + kLeaveMargin;
  worker->Leave(grace);
  while (!worker->has_left() && clock.Now() < give_up) {
    switch (daemon->AwaitHurry(kLeaveLookInterval)) {
      case Daemon::Hurry::kNo:
        continue;
      case Daemon::Hurry::kToldAgain:
        return spdlog::info("told again: stopping now");
      case Daemon::Hurry::kParentEnded:
        return;
    }
  }
}

}  // namespace

int WorkerMain(int argc, char** argv) {
  Daemon daemon("tutti-worker");
  if (!daemon.can_run()) return kExitCannotStart;
  WorkerFlags flags;
  FlagSet program("tutti-worker", "Serves one shard of a language model to a tutti-coordinator.");
  AddWorkerFlags(&program, &flags);
  if (const std::optional<int> code = program.Parse(argc, argv)) return *code;
  kernels::LoadGpuKernelsAtOnce(flags.worker.numerics_class);
  if (const absl::Status status = ResolveWorkerFlags(&flags); !status.ok()) {
    return daemon.Complain(status);
  }
  daemon.Begin(flags.worker.worker_id, flags.daemon);
  transport::TakeLogOfProtobuf();
  // It writes the environment, which no other thread may be reading.
  KeepNcclOnThisMachine(flags.worker.device_exchange);
  HeldDevice held;
  const absl::Status chosen = ResolveDevice(flags.share_devices, &flags.worker, &held);
  if (!chosen.ok()) return daemon.Complain(chosen);
  spdlog::info("descriptors: {}", transport::RaiseDescriptorLimit());
  WarnOfTooMuch(flags.worker);
  flags.worker.on_lost_device = SayLostDevice;
  auto worker = Worker::Start(flags.worker, KeepOnStarting);
  if (absl::IsCancelled(worker.status())) {
    spdlog::info("{}", std::string(worker.status().message()));
    return 0;
  }
  if (!worker.ok()) return daemon.Complain(worker.status());
  daemon.AwaitEnd("leaving");
  LeaveInOrder(worker->get(), flags.daemon.drain_timeout, &daemon);
  if (!(*worker)->Stop()) {
    spdlog::warn("leaving in the middle of loading");
    spdlog::default_logger()->flush();
    std::_Exit(0);
  }
  return 0;
}

}  // namespace tutti::worker
