#include "kernels/cuda/wide_products.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/gpu_memory.h"
#include "kernels/cuda/cublaslt_library.h"
#include "kernels/cuda/wgmma_probe.h"

namespace tutti::kernels::cuda {

absl::StatusOr<WideProducts> ProductsByLibrary(std::shared_ptr<CublasLt> library,
                                               Runtime* runtime) {
  TUTTI_ASSIGN_OR_RETURN(void* const work_space, runtime->Allocate(kGpuCublasWorkSpaceBytes));
  return WideProducts{
      .remark = absl::StrCat("many rows are multiplied by cuBLASLt ",
                             CublasLtVersionName(library->version()),
                             ": their bits depend on the rows beside them, and answers that are "
                             "computed again may differ"),
      .library = std::move(library),
      .work_space = work_space};
}

WideProducts ChooseWideProducts(int capability, int32_t multiprocessors, int probe_blocks,
                                Runtime* runtime) {
  constexpr int kHopper = 90;
  if (capability != kHopper) return {};
  const auto probe = ProbeWgmma(runtime, probe_blocks);
  if (!probe.ok()) {
    return {.remark = absl::StrCat("many rows are multiplied by mma.sync, as wgmma could not be "
                                   "tried: ",
                                   probe.status().message())};
  }
  if (probe->different > 0) {
    return {.remark = absl::StrCat("many rows are multiplied by mma.sync, as wgmma gave other bits "
                                   "for ",
                                   probe->different, " of ", probe->compared, " sums")};
  }
  return {.used = true,
          .multiprocessors = multiprocessors,
          .remark = absl::StrCat("many rows are multiplied by wgmma, which gave the bits of "
                                 "mma.sync for ",
                                 probe->compared, " sums")};
}

}  // namespace tutti::kernels::cuda
