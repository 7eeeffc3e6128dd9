// Launches as a CUDA graph.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "kernels/cuda/lost_device.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

dim3 Blocks(const KernelLaunch& launch);
dim3 Threads(const KernelLaunch& launch);
// For errors.
const char* KernelName(const void* kernel);

// Which device, and who hears that it is lost.
struct OpenedDevice {
  int32_t index = 0;
  LostDeviceHandler on_lost = nullptr;
};

// Ends the process unless the call has succeeded (lost_device.h).
void MustSucceed(cudaError_t error, const char* operation, const OpenedDevice& device);

// A chain of kernel nodes, put together by hand: nothing is captured, so the use of the device by
// other threads or libraries meanwhile does not matter. On the device and ready to start on
// `stream`.
//
// CUDA's reason when it refuses.
// REQUIRES: the device is current, and each kernel may use the shared memory it is started with.
absl::StatusOr<std::unique_ptr<Graph>> MakeCudaGraph(std::span<const KernelLaunch> launches,
                                                     cudaStream_t stream,
                                                     const OpenedDevice& device);

}  // namespace tutti::kernels::cuda
