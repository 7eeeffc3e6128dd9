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

TUTTI_INLINE RowBlock BlockAt(int64_t begin, int64_t rows) {
  const int64_t left = rows - begin;
  const int64_t count = left < kRowBlock ? left : kRowBlock;
  return {begin, count, (count + kTileRows - 1) / kTileRows};
}
TUTTI_INLINE RowBlock FirstBlock(int64_t rows) { return BlockAt(0, rows); }
TUTTI_INLINE RowBlock NextBlock(RowBlock block, int64_t rows) {
  return BlockAt(block.begin + block.rows, rows);
}

// Tiles as even as possible: 8 rows are 4 + 4, not 6 + 2.
TUTTI_INLINE RowTile TileOf(RowBlock block, int64_t tile) {
  const int64_t base = block.rows / block.tiles;
  const int64_t longer = block.rows % block.tiles;
  return {tile * base + (tile < longer ? tile : longer), base + (tile < longer ? 1 : 0)};
}

// Tiles of a whole product: every block but the last is full.
TUTTI_INLINE int64_t TileCount(int64_t rows) {
  static_assert(kRowBlock % kTileRows == 0);
  return (rows + kTileRows - 1) / kTileRows;
}

}  // namespace tutti::kernels::cpu
