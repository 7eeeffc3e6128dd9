// How much scratch the vector kernels need, and how many tiles they pack.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/tiles.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

// One accumulator block, and one open sum per level of the leaf tree (the last for the total); or
// what AMX's products keep: open sums, and a panel of two units as tiles.
inline int64_t MatMulScratchFloats(int64_t pairs, int64_t leaves, int64_t row_block) {
  const int64_t panel = AmxOpenFloats(leaves) + (pairs / 16 + leaves) * 2 * 1024 / 4;
  int64_t blocks = 2;
  for (; leaves > 1; leaves /= 2) ++blocks;
  const int64_t vector = blocks * row_block * 64;
  return vector > panel ? vector : panel;
}

// Of products over codes: a piece as bf16, the sums of a strip, of a leaf and of the tree; or
// AMX's piece, sums of a strip, open sums, and panel.
inline int64_t QuantisedScratchFloats(int64_t pairs, int64_t leaves, int64_t row_block) {
  constexpr int64_t kPiece = kQuantisedPiecePairs * 64;
  const int64_t tiles = kPiece + 1024 + AmxOpenFloats(leaves) + pairs / 16 * 2 * 1024 / 4;
  int64_t blocks = 3;
  for (; leaves > 1; leaves /= 2) ++blocks;
  const int64_t vector = kPiece + blocks * row_block * 64;
  return vector > tiles ? vector : tiles;
}

// Tiles of rows that pack_rows lays out for a product: of kTileRows every block of rows but the
// last is full, and has whole tiles.
inline int64_t PackedTiles(const KernelTable& kernels, const MatMulJob& job) {
  const bool own = job.dtype == DType::kBF16 && !job.tuning.by_f32;
  const int64_t rows = own ? kernels.row_tile : kTileRows;
  return (job.rows + rows - 1) / rows;
}

// (row, head) pairs of an item of attention, at most.
inline int64_t EntriesOfItem(const KernelTable& kernels, const AttentionJob& job) {
  const bool own = job.dtype == DType::kBF16 && !job.by_f32;
  return own ? kernels.attention_entries : kAttentionEntries;
}

// Packed input of a product of `rows` rows, in any format: [rows][pairs] of two f32, or
// [rows][blocks of 32 k] of 32 bf16 (amx_pack.h).
constexpr int64_t PackedInBytes(int64_t rows, int64_t pairs, int64_t leaves) {
  const int64_t blocks_at_most = pairs / 16 + leaves;
  return rows * (pairs * 8 > blocks_at_most * 64 ? pairs * 8 : blocks_at_most * 64);
}

// Scores and weights of a tile, then per entry: largest, total, output and query.
constexpr int64_t AttentionScratchFloats(int64_t head_dim) {
  const int64_t out_cols = (head_dim + 15) / 16 * 16;
  const int64_t vector =
      2 * kTileRows * (kAttentionTileSlots + 16) + kAttentionEntries * (2 + out_cols + head_dim);
  // AmxCarve: values as tiles, a tile of keys, queries in whole blocks, scores and weights of two
  // tiles of rows.
  const int64_t tiles = kAttentionTileSlots / 2 * out_cols + 256 +
                        kAmxAttentionEntries * (2 + out_cols + (head_dim + 31) / 32 * 16) +
                        48 * (kAttentionTileSlots + 16);
  return vector > tiles ? vector : tiles;
}

}  // namespace tutti::kernels::cpu
