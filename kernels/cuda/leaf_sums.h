// The tree of leaves that each have their sum in memory.
#pragma once

#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// The sum of `leaves` numbers, `stride` apart, in the tree of AddLeaf. All are loaded before the
// first is added: they come from memory together.
TUTTI_DEVICE float SumOfLeaves(const float* first, int64_t stride, int leaves) {
  float part[kLeavesMax];
  TUTTI_UNROLL
  for (int leaf = 0; leaf < kLeavesMax; ++leaf) {
    part[leaf] = leaf < leaves ? first[leaf * stride] : 0;
  }
  float sum[1] = {}, pending[kLeafLevels][1] = {};
  TUTTI_UNROLL
  for (int leaf = 0; leaf < kLeavesMax; ++leaf) {
    if (leaf >= leaves) continue;
    sum[0] = part[leaf];
    AddLeaf<1, kLeafLevels>(leaf, sum, pending);
  }
  return sum[0];
}

}  // namespace tutti::kernels::cuda
