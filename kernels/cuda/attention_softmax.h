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

TUTTI_DEVICE FoldScale Fold(Softmax* softmax, float tile_largest, float tile_sum) {
  // Scores that are all NaN have no largest either, but their sum is NaN.
  if (tile_largest == MinusInfinity() && tile_sum == 0) return {1, 0, false};
  const float largest = fmaxf(softmax->largest, tile_largest);
  const FoldScale scale = {Exp2(softmax->largest - largest), Exp2(tile_largest - largest), true};
  softmax->largest = largest;
  softmax->sum = FusedMultiplyAdd(softmax->sum, scale.before, tile_sum * scale.tile);
  return scale;
}

TUTTI_DEVICE float FoldValue(const FoldScale& scale, float before, float tile) {
  return scale.any ? FusedMultiplyAdd(before, scale.before, tile * scale.tile) : before;
}

}  // namespace tutti::kernels::cuda
