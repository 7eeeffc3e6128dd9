#include "worker/service/device_flags.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/machine.h"
#include "spdlog/spdlog.h"
#include "transport/private_folder.h"
#include "worker/device_choice.h"

namespace tutti::worker {

kernels::GpuList VisibleGpus() {
  return kernels::ListGpus(kernels::kCudaPlugin, kernels::PluginDirectories());
}

absl::Status ResolveDevice(bool share, WorkerOptions* worker, std::optional<DeviceClaim>* claim) {
  std::string& device = worker->device;
  const auto take = [&](const std::string& id) -> absl::StatusOr<DeviceClaim> {
    TUTTI_RETURN_IF_ERROR(transport::MakePrivateFolder(transport::RuntimeFolder()));
    return DeviceClaim::Take(transport::RuntimeFolder(), id,
                             absl::StrCat("worker ", worker->worker_id, " (process ",
                                          getpid(), ")"));
  };
  auto choice = ChooseDevice({device, share},
                             AsksForGpus(device) ? VisibleGpus() : kernels::GpuList(), take);
  if (!choice.ok()) return Annotate(choice.status(), "--device");
  if (!choice->reason.empty()) spdlog::info("device {}: {}", choice->device, choice->reason);
  device = choice->device;
  *claim = std::move(choice->claim);
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
    worker->memory_bytes =
        static_cast<int64_t>(kMemoryShare * static_cast<double>(available));
  }
  return absl::OkStatus();
}

}  // namespace tutti::worker
