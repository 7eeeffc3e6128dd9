// The real device behind runtime.h.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {

// RESOURCE_EXHAUSTED or UNAVAILABLE when the device cannot be used, with CUDA's reason.
absl::StatusOr<std::unique_ptr<Runtime>> OpenDevice(int32_t index);

}  // namespace tutti::kernels::cuda
