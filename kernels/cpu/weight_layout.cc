#include "kernels/cpu/weight_layout.h"

namespace tutti::kernels::cpu {

LeafPairs::LeafPairs(std::span<const int64_t> leaf_begin) {
  begin_.reserve(leaf_begin.size());
  begin_.push_back(0);
  for (size_t leaf = 0; leaf + 1 < leaf_begin.size(); ++leaf) {
    begin_.push_back(begin_.back() + (leaf_begin[leaf + 1] - leaf_begin[leaf] + 1) / 2);
  }
}

int64_t PackedBytes(int64_t out_features, int64_t in_features, DType dtype,
                    std::span<const int64_t> leaf_begin) {
  const int64_t whole[] = {0, in_features};
  const LeafPairs pairs(leaf_begin.empty() ? std::span<const int64_t>(whole) : leaf_begin);
  const int64_t groups = (out_features + kGroupColumns - 1) / kGroupColumns;
  return groups * pairs.total() * kGroupUnits * UnitBytes(dtype);
}

}  // namespace tutti::kernels::cpu
