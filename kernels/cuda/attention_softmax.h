// The softmax of attention over one tile after the other, by which a tile's results join those of
// the tiles before it. Every kernel that attends uses these, so that all give the same bits.
#pragma once

#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

inline constexpr float kLog2E = 1.44269504088896340736f;
TUTTI_DEVICE float MinusInfinity() { return -__builtin_huge_valf(); }

// A row's softmax so far: the largest score (times log2 e) and the sum of the weights.
struct Softmax {
  float largest = MinusInfinity();
  float sum = 0;
};

// The factors of a tile's results and of those before it.
struct FoldScale {
  float before, tile;
  bool any;  // false: the tile holds no slot of this row and changes nothing
};

TUTTI_DEVICE float FoldValue(const FoldScale& scale, float before, float tile) {
  return scale.any ? FusedMultiplyAdd(before, scale.before, tile * scale.tile) : before;
}

// Joins a tile's largest score to the largest so far. A softmax's sum folds as a value does.
TUTTI_DEVICE FoldScale FoldLargest(float* largest, float tile_largest, bool any) {
  if (!any) return {1, 0, false};
  const float joined = fmaxf(*largest, tile_largest);
  const FoldScale scale = {Exp2(*largest - joined), Exp2(tile_largest - joined), true};
  *largest = joined;
  return scale;
}

// Scores that are all NaN have no largest either, but their sum is NaN.
TUTTI_DEVICE bool HoldsAny(float tile_largest, float tile_sum) {
  return !(tile_largest == MinusInfinity() && tile_sum == 0);
}

TUTTI_DEVICE FoldScale Fold(Softmax* softmax, float tile_largest, float tile_sum) {
  const FoldScale scale =
      FoldLargest(&softmax->largest, tile_largest, HoldsAny(tile_largest, tile_sum));
  softmax->sum = FoldValue(scale, softmax->sum, tile_sum);
  return scale;
}

}  // namespace tutti::kernels::cuda
