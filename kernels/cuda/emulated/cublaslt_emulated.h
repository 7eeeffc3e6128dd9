// A library of products over the emulated GPU's memory, for tests.
#pragma once

#include <memory>

#include "kernels/cuda/cublaslt.h"

namespace tutti::kernels::cuda {

// `library`, whose products reach the device's memory while they are computed. A matrix that is not
// the device's fails a CHECK.
std::shared_ptr<CublasLt> OnEmulatedDevice(std::shared_ptr<CublasLt> library);

}  // namespace tutti::kernels::cuda
