// The operators of kernels/backend.h on a GPU.
//
// Operators are recorded and return at once (launch_queue.h); those that give numbers to the host
// (ArgMax, LogSumExp, TopCandidates, Convert into host memory) wait. Host memory appears in Convert
// only, which is how activations enter and leave the device.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/nccl_membership.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/wide_products.h"

namespace tutti::kernels::cuda {

// Of the options, `graphs` and `early_kernels`; `wide` was chosen by another.
std::unique_ptr<Backend> MakeCudaBackend(std::unique_ptr<Runtime> runtime,
                                         std::string numerics_class, NcclOptions nccl,
                                         const BackendOptions& options, const WideProducts& wide);

}  // namespace tutti::kernels::cuda
