// How rows are divided into blocks and tiles. The same for packing and for multiplying, on every
// instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

struct RowBlock {
  int64_t begin;  // first row
  int64_t rows;
  int64_t tiles;
};

struct RowTile {
  int64_t begin;  // first row within the block
  int64_t rows;
};

// The block that begins at row `begin`, of `row_block` rows at most: a multiple of kTileRows.
TUTTI_INLINE RowBlock BlockAt(int64_t begin, int64_t rows, int64_t row_block) {
  const int64_t left = rows - begin;
  const int64_t count = left < row_block ? left : row_block;
  return {begin, count, (count + kTileRows - 1) / kTileRows};
}
TUTTI_INLINE RowBlock FirstBlock(int64_t rows, int64_t row_block) {
  return BlockAt(0, rows, row_block);
}
TUTTI_INLINE RowBlock NextBlock(RowBlock block, int64_t rows, int64_t row_block) {
  return BlockAt(block.begin + block.rows, rows, row_block);
}

// Floats of the sums of AMX's tiles: [32][32] or [16][64] of a leaf, and of each level of the tree.
TUTTI_INLINE int64_t AmxOpenFloats(int64_t leaves) {
  int64_t sums = 2;
  for (; leaves > 1; leaves /= 2) ++sums;
  return sums * 1024;
}

// Tiles as even as possible: 8 rows are 4 + 4, not 6 + 2.
TUTTI_INLINE RowTile TileOf(RowBlock block, int64_t tile) {
  const int64_t base = block.rows / block.tiles;
  const int64_t longer = block.rows % block.tiles;
  return {tile * base + (tile < longer ? tile : longer), base + (tile < longer ? 1 : 0)};
}

}  // namespace tutti::kernels::cpu
