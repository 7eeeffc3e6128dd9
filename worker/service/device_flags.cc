#include "worker/service/device_flags.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "program/machine.h"
#include "spdlog/spdlog.h"
#include "transport/private_folder.h"
#include "worker/device_choice.h"
#include "worker/limits.h"

namespace tutti::worker {

kernels::GpuList VisibleGpus() {
  return kernels::ListGpus(kernels::kCudaPlugin, kernels::PluginDirectories());
}

namespace {

// Called before CUDA is opened there, which fails for want of memory without saying who has it.
void WatchGpu(const kernels::Gpu& gpu, WorkerOptions* worker, HeldDevice* held) {
  held->monitor = std::make_unique<GpuMonitor>(
      GpuMonitor::Options{.library = NvmlLibraryPath(),
                          .gpu = {.id = gpu.id, .bus = gpu.bus, .name = gpu.name},
                          .period = kGpuMonitorPeriod});
  worker->gpu = held->monitor.get();
  const std::string crowded = held->monitor->AwaitFirst(kGpuFirstAnswerPatience);
  if (!crowded.empty()) spdlog::warn("GPU {}, {}", gpu.index, crowded);
}

}  // namespace

absl::Status ResolveDevice(bool share, WorkerOptions* worker, HeldDevice* held) {
  std::string& device = worker->device;
  const auto take = [&](const std::string& id) -> absl::StatusOr<DeviceClaim> {
    TUTTI_RETURN_IF_ERROR(transport::MakePrivateFolder(transport::RuntimeFolder()));
    return DeviceClaim::Take(
        transport::RuntimeFolder(), id,
        absl::StrCat("worker ", worker->worker_id, " (process ", getpid(), ")"));
  };
  auto choice =
      ChooseDevice({device, share}, AsksForGpus(device) ? VisibleGpus() : kernels::GpuList(), take);
  if (!choice.ok()) return Annotate(choice.status(), "--device");
  if (!choice->reason.empty()) spdlog::info("device {}: {}", choice->device, choice->reason);
  device = choice->device;
  held->claim = std::move(choice->claim);
  if (choice->gpu.has_value()) WatchGpu(*choice->gpu, worker, held);
  // The probe's sizes are those of a CPU: a GPU would mostly show how soon it starts a kernel. The
  // reference backend is for tests, and slow enough that measuring would be felt.
  worker->measure_speed &= device == "cpu";
  // The memory of a GPU is read from its driver; see Worker::Start.
  if (worker->memory_bytes == 0 && !worker->device.starts_with("cuda")) {
    const int64_t available = AvailableMemoryBytes();
    if (available == 0) {
      return absl::UnavailableError(
          "--memory: no memory is free here, or the system does not say how much; give the option");
    }
    worker->memory_bytes = static_cast<int64_t>(kMemoryShare * static_cast<double>(available));
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
