// The device that the flags of tutti-worker and the GPUs of this machine come to.
//
// Thread: the main one.
#pragma once

#include <optional>

#include "base/status.h"
#include "kernels/plugin_loader.h"
#include "worker/device_claim.h"
#include "worker/service/worker.h"

namespace tutti::worker {

// The GPUs that this process sees. Takes as long as the driver needs to wake up, and may start
// threads of the driver's.
kernels::GpuList VisibleGpus();

// Chooses the device, says so in the log, and fills in what follows from it: the memory where none
// was given, and that the speed of no other device than a CPU is measured. `share`: with workers
// that have taken it. `claim` is to live as long as the worker. Errors name --device or --memory.
absl::Status ResolveDevice(bool share, WorkerOptions* worker, std::optional<DeviceClaim>* claim);

}  // namespace tutti::worker
