// CudaBackend over the emulated GPU, for tests.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

// Device cuda:`index`, class "cuda-emulated". Its memory is out of the host's reach
// (device_arena.h).
//
// Each is a GPU of its own. `nccl` is the library that its worker finds; null: none.
std::unique_ptr<Backend> MakeEmulatedBackend(const BackendOptions& options = {},
                                             std::shared_ptr<Nccl> nccl = nullptr,
                                             int32_t index = 0);
// The same for a worker: in `options.numerics_class`, "" for the exact one, or
// "cuda-emulated-cublas" by the library that TUTTI_CUBLASLT_LIBRARY names. FAILED_PRECONDITION:
// there is no such class; errors of OpenCublasLtLibrary.
absl::StatusOr<std::unique_ptr<Backend>> OpenEmulatedBackend(const BackendOptions& options,
                                                             int32_t index);
// A queue of the emulated device.
std::unique_ptr<Runtime> MakeEmulatedRuntime();

// Of all emulated devices: allocations of memory since the process began, and bytes they have now.
int64_t EmulatedAllocations();
int64_t EmulatedBytesInUse();

}  // namespace tutti::kernels::cuda
