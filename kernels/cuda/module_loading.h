// When CUDA's driver brings kernels to the GPU, by its own account: CUDA_MODULE_LOADING is a wish,
// which it reads once and perhaps before the wish was there.
#pragma once

#include <string>
#include <string_view>

namespace tutti::kernels::cuda {

// The values of the driver's CUmoduleLoadingMode, and none of them: it could not be asked.
inline constexpr int kLoadingUnknown = 0;
inline constexpr int kLoadsAtOnce = 1;
inline constexpr int kLoadsWhenUsed = 2;

// For a log.  `wish`: CUDA_MODULE_LOADING; "": not set
std::string ModuleLoadingRemark(int mode, std::string_view wish);

}  // namespace tutti::kernels::cuda
