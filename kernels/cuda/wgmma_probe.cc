#include "kernels/cuda/wgmma_probe.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_weight.h"

namespace tutti::kernels::cuda {

absl::StatusOr<WgmmaProbe> ProbeWgmma(Runtime* runtime, int blocks) {
  int counters[2] = {};
  TUTTI_ASSIGN_OR_RETURN(const auto memory, CudaBuffer::Make(runtime, sizeof(counters)));
  auto* const device = static_cast<int*>(memory->data());
  const int64_t expected =
      LaunchWgmmaProbe({.compared = device, .different = device + 1}, blocks, runtime);
  runtime->Download(counters, sizeof(counters), device, sizeof(counters), sizeof(counters), 1);
  const auto compared = static_cast<int64_t>(static_cast<uint32_t>(counters[0]));
  if (compared != expected) {
    return absl::InternalError(
        absl::StrCat("the probe compared ", compared, " sums of ", expected));
  }
  return WgmmaProbe{.compared = compared,
                    .different = static_cast<int64_t>(static_cast<uint32_t>(counters[1]))};
}

}  // namespace tutti::kernels::cuda
