#include "kernels/cuda/wgmma_probe.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_weight.h"

namespace tutti::kernels::cuda {

absl::StatusOr<WgmmaProbe> ProbeWgmma(Runtime* runtime, int blocks) {
  int counters[4] = {};
  TUTTI_ASSIGN_OR_RETURN(const auto memory, CudaBuffer::Make(runtime, sizeof(counters)));
  auto* const device = static_cast<int*>(memory->data());
  const int64_t expected[] = {
      LaunchWgmmaProbe({.compared = device, .different = device + 1}, blocks, runtime),
      LaunchWgmmaSidesProbe({.compared = device + 2, .different = device + 3}, blocks, runtime)};
  runtime->Download(counters, sizeof(counters), device, sizeof(counters), sizeof(counters), 1);
  const auto counter = [&](int i) {
    return static_cast<int64_t>(static_cast<uint32_t>(counters[i]));
  };
  for (const int i : {0, 1}) {
    if (counter(2 * i) == expected[i]) continue;
    return absl::InternalError(
        absl::StrCat("the probe compared ", counter(2 * i), " sums of ", expected[i]));
  }
  return WgmmaProbe{.compared = counter(0),
                    .different = counter(1),
                    .sides_compared = counter(2),
                    .sides_different = counter(3)};
}

}  // namespace tutti::kernels::cuda
