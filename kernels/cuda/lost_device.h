// The end of a process that has lost its device.
//
// CUDA has errors that stay: an illegal address, an error of the GPU's memory, a GPU that has
// fallen off the bus. Every later call returns the same one, memory of the device is gone with all
// that was in it, and only a new process can use a GPU again. For its coordinator a worker that
// ends is an ordinary event: streams go on with others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/backend.h"

namespace tutti::kernels::cuda {

// "GPU 1 is lost: copying from the GPU: cudaErrorIllegalAddress, an illegal memory access was
// encountered; …" and what to do. In one line.
std::string LostDeviceText(int32_t index, std::string_view operation, std::string_view error);

// Says it and ends the process with kExitDeviceLost, without running destructors: they would call
// the device. Only the first call says anything; others wait for the end.  Thread: any.
[[noreturn]] void EndForLostDevice(int32_t index, std::string_view operation,
                                   std::string_view error, LostDeviceHandler handler);

}  // namespace tutti::kernels::cuda
