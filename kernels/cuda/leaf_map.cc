#include "kernels/cuda/leaf_map.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace tutti::kernels::cuda {

absl::StatusOr<LeafMap> MakeLeafMap(const std::vector<int64_t>& leaf_begin) {
  const auto leaves = static_cast<int64_t>(leaf_begin.size()) - 1;
  if (leaves > kLeavesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(leaves, " leaves; the CUDA kernels add at most ", kLeavesMax));
  }
  // Padding adds a chunk per leaf at most.
  if (leaf_begin.back() > std::numeric_limits<int32_t>::max() - (kLeavesMax + 1) * kChunkK) {
    return absl::InvalidArgumentError(absl::StrCat(leaf_begin.back(), " inputs of a product"));
  }
  LeafMap map;
  map.leaves = static_cast<int32_t>(leaves);
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    const int64_t length = leaf_begin[leaf + 1] - leaf_begin[leaf];
    map.begin[leaf + 1] = static_cast<int32_t>(leaf_begin[leaf + 1]);
    map.chunk[leaf + 1] = map.chunk[leaf] + static_cast<int32_t>((length + kChunkK - 1) / kChunkK);
  }
  return map;
}

}  // namespace tutti::kernels::cuda
