// How much scratch the vector kernels need.
#pragma once

#include <cstdint>

#include "kernels/limits.h"

namespace tutti::kernels::cpu {

// One accumulator block, and one open sum per level of the leaf tree (the last for the total).
constexpr int64_t MatMulScratchFloats(int64_t leaves, int64_t row_block) {
  int64_t blocks = 2;
  for (; leaves > 1; leaves /= 2) ++blocks;
  return blocks * row_block * 64;
}

// Scores and weights of a tile, then per entry: largest, total, output and query.
constexpr int64_t AttentionScratchFloats(int64_t head_dim) {
  const int64_t out_cols = (head_dim + 15) / 16 * 16;
  return 2 * kTileRows * (kAttentionTileSlots + 16) + kAttentionEntries * (2 + out_cols + head_dim);
}

}  // namespace tutti::kernels::cpu
