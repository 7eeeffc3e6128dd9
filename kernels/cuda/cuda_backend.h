// The operators of kernels/backend.h on a GPU.
//
// Operators are queued and return at once; those that give numbers to the host (ArgMax, LogSumExp,
// TopCandidates, Convert into host memory) wait. Host memory appears in Convert only, which is how
// activations enter and leave the device.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

std::unique_ptr<Backend> MakeCudaBackend(std::unique_ptr<Runtime> runtime, int32_t device_index,
                                         std::string numerics_class);

}  // namespace tutti::kernels::cuda
