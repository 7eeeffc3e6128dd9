// CudaBackend over the emulated GPU, for tests.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace tutti::kernels::cuda {

// Device cuda:0, class "cuda-emulated". Its memory is the host's, so a test that mistakes one for
// the other reads what it wants; views must name the right device all the same.
std::unique_ptr<Backend> MakeEmulatedBackend();

}  // namespace tutti::kernels::cuda
