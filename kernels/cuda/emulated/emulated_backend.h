// CudaBackend over the emulated GPU, for tests.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace tutti::kernels::cuda {

// Device cuda:0, class "cuda-emulated". Its memory is out of the host's reach (device_arena.h).
std::unique_ptr<Backend> MakeEmulatedBackend(bool graphs = true);

// Of all emulated devices: allocations of memory since the process began, and bytes they have now.
int64_t EmulatedAllocations();
int64_t EmulatedBytesInUse();

}  // namespace tutti::kernels::cuda
