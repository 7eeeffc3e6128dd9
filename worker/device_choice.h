// The device that a worker serves from: --device, the GPUs that there are, and who has taken which.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "kernels/plugin_loader.h"
#include "worker/device_claim.h"

namespace tutti::worker {

struct DeviceChoice {
  std::string device;                // a backend's name, "cpu" or "cuda:1"
  std::string reason;                // for the log; "": it was named
  std::optional<DeviceClaim> claim;  // of a GPU that is not shared
  std::optional<kernels::Gpu> gpu;   // that it is, where the GPUs were looked at
};

struct DeviceWish {
  std::string device;  // auto, cpu, reference, cuda (any GPU) or cuda:N
  bool share = false;  // GPUs that others have taken are taken too
};

// Takes the GPU of that id, or says who has it.
using TakeDevice = std::function<absl::StatusOr<DeviceClaim>(const std::string& id)>;

// "auto": the first GPU that may serve and that nobody has taken; the CPU only where no GPU may
// serve. "cuda": the same without the CPU. Names of backends stay what they are; a GPU among them
// is taken. Where others cannot be told, the reason says so. ALREADY_EXISTS: GPUs may serve and all
// are taken; says by whom, and --share-devices. UNAVAILABLE: "cuda", and no GPU may serve; says why
// not.
absl::StatusOr<DeviceChoice> ChooseDevice(const DeviceWish& wish, const kernels::GpuList& gpus,
                                          const TakeDevice& take);

// Whether ChooseDevice looks at the GPUs.
bool AsksForGpus(const std::string& device);

// Why none of the GPUs may serve, in one line; "" if one may.
std::string WhyNoGpu(const kernels::GpuList& gpus);

// The GPUs as JSON, an object in one line, for `tutti up`: {"gpus": [{"device", "id", "name",
// "memory_bytes", "problem"}], "problem"}.
std::string DeviceReport(const kernels::GpuList& gpus);

}  // namespace tutti::worker
