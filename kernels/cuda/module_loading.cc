#include "kernels/cuda/module_loading.h"

#include "absl/strings/str_cat.h"

namespace tutti::kernels::cuda {

std::string ModuleLoadingRemark(int mode, std::string_view wish) {
  if (mode == kLoadsAtOnce) return "CUDA's driver loads kernels at once";
  if (mode != kLoadsWhenUsed) return "CUDA's driver does not say when it loads kernels";
  return absl::StrCat("CUDA's driver loads kernels when they are first used",
                      wish == "EAGER" ? ": CUDA_MODULE_LOADING was set too late" : "");
}

}  // namespace tutti::kernels::cuda
