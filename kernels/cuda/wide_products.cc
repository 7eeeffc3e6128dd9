#include "kernels/cuda/wide_products.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/wgmma_probe.h"

namespace tutti::kernels::cuda {

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
