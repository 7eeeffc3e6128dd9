#include "placement/placement.h"

#include "kernels/gpu_memory.h"
#include "model/work_space.h"

namespace tutti::placement {

std::optional<DeviceMapMode> ParseDeviceMapMode(std::string_view name) {
  if (name == "auto") return DeviceMapMode::kAuto;
  if (name == "balanced") return DeviceMapMode::kBalanced;
  if (name == "balanced_low_0") return DeviceMapMode::kBalancedLow0;
  if (name == "sequential") return DeviceMapMode::kSequential;
  return std::nullopt;
}

int64_t UsableBytes(const DeviceSpec& device) {
  return device.whole_gpu ? kernels::UsableGpuBytes(device.memory_bytes, device.cublas)
                          : device.memory_bytes;
}

absl::Status CheckDeviceKinds(const model::ModelConfig& model, const PlacementOptions& options,
                              const std::vector<DeviceSpec>& devices) {
  for (const DeviceSpec& device : devices) {
    TUTTI_RETURN_IF_ERROR(Annotate(model::CheckDeviceKind(model, device.kind), device.name));
    if (options.draft == nullptr) continue;
    TUTTI_RETURN_IF_ERROR(Annotate(model::CheckDeviceKind(*options.draft, device.kind),
                                   absl::StrCat("draft model on ", device.name)));
  }
  return absl::OkStatus();
}

}  // namespace tutti::placement
