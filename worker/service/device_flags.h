// The device that the flags of tutti-worker and the GPUs of this machine come to.
//
// Thread: the main one.
#pragma once

#include <memory>
#include <optional>

#include "base/status.h"
#include "kernels/plugin_loader.h"
#include "worker/device_claim.h"
#include "worker/gpu/gpu_monitor.h"
#include "worker/service/worker.h"

namespace tutti::worker {

// The GPUs that this process sees. Takes as long as the driver needs to wake up, and may start
// threads of the driver's.
kernels::GpuList VisibleGpus();

struct HeldDevice {
  std::optional<DeviceClaim> claim;
  std::unique_ptr<GpuMonitor> monitor;  // of a GPU
};

// Chooses the device, says so in the log, as who else fills a GPU, and fills in what follows from
// it: the memory where none was given, and that the speed of no other device than a CPU is
// measured. `share`: with workers that have taken it. `held` is to outlive the worker. Errors name
// --device or --memory.
absl::Status ResolveDevice(bool share, WorkerOptions* worker, HeldDevice* held);

}  // namespace tutti::worker
