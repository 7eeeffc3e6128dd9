// Matrix products in AMX's tiles: the bits of BlockFormat, over the same packed weights. A unit of
// 16 columns by a pair of k is a row of a tile of weights, so nothing is packed anew.
//
// Packed input: for each tile of 16 rows (the last may have fewer), for each leaf, for each block
// of 32 k, the tile's rows of 32 bf16, filled up with zeros behind the leaf's end.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/slice_count.h"

namespace tutti::kernels::cpu {
namespace {

inline constexpr int64_t kAmxGroupBytes = kMatMulGroupUnits * kAmxRowBytes;  // of a pair of k
inline constexpr int64_t kAmxBlockBytes = kAmxBlockPairs * kAmxGroupBytes;   // of a group's block
inline constexpr int64_t kAmxHalfColumns = 32;                               // of a pair of tiles

TUTTI_INLINE int64_t AmxBlocks(int64_t pairs) {
  return (pairs + kAmxBlockPairs - 1) / kAmxBlockPairs;
}
TUTTI_INLINE int64_t AmxBlocksOfLeaves(const MatMulJob& job, int64_t leaves) {
  int64_t blocks = 0;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    blocks += AmxBlocks(job.leaf_pair_begin[leaf + 1] - job.leaf_pair_begin[leaf]);
  }
  return blocks;
}

// Rounds 32 elements of a row to bf16, the first `count` of them where those are fewer.
template <class S>
TUTTI_INLINE void AmxPackRow(const float* in, int64_t count, uint8_t* out) {
  if (count >= 32) {
    S::StoreBf16Pair(out, S::Load(in), S::Load(in + 16));
  } else {
    const auto low = S::LoadFirst(in, count);
    const auto high = count > 16 ? S::LoadFirst(in + 16, count - 16) : S::Zero();
    S::StoreBf16Pair(out, low, high);
  }
}

// Tiles of rows [tile_begin, tile_end).
template <class S>
static void AmxPackTiles(const MatMulJob& job, int64_t tile_begin, int64_t tile_end) {
  const int64_t total = AmxBlocksOfLeaves(job, job.leaves);
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const int64_t first = tile * kAmxRows;
    const int64_t rows = job.rows - first < kAmxRows ? job.rows - first : kAmxRows;
    uint8_t* out = static_cast<uint8_t*>(job.packed_in) + first * total * kAmxRowBytes;
    for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
      const float* in = job.in + first * job.in_stride;
      for (int64_t k = job.leaf_begin[leaf]; k < job.leaf_begin[leaf + 1]; k += 32) {
        for (int64_t r = 0; r < rows; ++r, out += kAmxRowBytes) {
          AmxPackRow<S>(in + r * job.in_stride + k, job.leaf_begin[leaf + 1] - k, out);
        }
      }
    }
  }
}

// The units of a leaf's last block, filled up with zeros: `units` tiles one behind the other.
TUTTI_INLINE void AmxFillUp(const uint8_t* weights, int64_t pairs, int64_t units, uint8_t* tiles) {
  std::memset(tiles, 0, static_cast<size_t>(units * kAmxTileBytes));
  for (int64_t pair = 0; pair < pairs; ++pair) {
    for (int64_t unit = 0; unit < units; ++unit) {
      std::memcpy(tiles + unit * kAmxTileBytes + pair * kAmxRowBytes,
                  weights + pair * kAmxGroupBytes + unit * kAmxRowBytes, kAmxRowBytes);
    }
  }
}

TUTTI_INLINE void AmxFetch(const uint8_t* from, int64_t lines, int64_t step) {
  for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(from + line * step, 0, 3);
}

// One tile of `rows` rows by the four units of a group. `weights` may be a filled-up block, whose
// units are `unit_step` bytes apart and whose pairs `pair_step`.
TUTTI_INLINE void AmxSingleBlock(const uint8_t* in, const uint8_t* weights, int64_t unit_step,
                                 int64_t pair_step) {
  AmxLoad<4>(in, kAmxRowBytes);
  AmxLoad<5>(weights, pair_step);
  AmxMultiply<0, 4, 5>();
  AmxLoad<6>(weights + unit_step, pair_step);
  AmxMultiply<1, 4, 6>();
  AmxLoad<7>(weights + 2 * unit_step, pair_step);
  AmxMultiply<2, 4, 7>();
  AmxLoad<5>(weights + 3 * unit_step, pair_step);
  AmxMultiply<3, 4, 5>();
}

// Two tiles of rows by two units. `next` is fetched: the pair's units of the next block.
template <bool kFetch>
TUTTI_INLINE void AmxPairBlock(const uint8_t* first, const uint8_t* second, const uint8_t* weights,
                               int64_t unit_step, int64_t pair_step) {
  AmxLoad<4>(weights, pair_step);
  AmxLoad<6>(first, kAmxRowBytes);
  if constexpr (kFetch) AmxFetch(weights + kAmxBlockBytes, kAmxRows, pair_step);
  AmxMultiply<0, 6, 4>();
  AmxLoad<5>(weights + unit_step, pair_step);
  AmxMultiply<1, 6, 5>();
  AmxLoad<7>(second, kAmxRowBytes);
  if constexpr (kFetch) AmxFetch(weights + kAmxBlockBytes + unit_step, kAmxRows, pair_step);
  AmxMultiply<2, 7, 4>();
  AmxMultiply<3, 7, 5>();
}

// A leaf's packed rows and weights.
struct AmxLeaf {
  const uint8_t* first;   // rows of the first tile
  const uint8_t* second;  // of the second
  int64_t first_step;     // bytes from a block's rows to the next one's
  int64_t second_step;
  const uint8_t* weights;  // of the first unit
  int64_t pairs;
};

// Sums of a leaf, one tile of rows by four units: acc [rows][64].
static inline void AmxSingleLeaf(AmxLeaf leaf, int64_t ahead_bytes, float* acc) {
  AmxZero<0>();
  AmxZero<1>();
  AmxZero<2>();
  AmxZero<3>();
  for (; leaf.pairs >= kAmxBlockPairs; leaf.pairs -= kAmxBlockPairs) {
    if (ahead_bytes > 0) AmxFetch(leaf.weights + ahead_bytes, kAmxBlockBytes / 64, 64);
    AmxSingleBlock(leaf.first, leaf.weights, kAmxRowBytes, kAmxGroupBytes);
    leaf.first += leaf.first_step;
    leaf.weights += kAmxBlockBytes;
  }
  if (leaf.pairs > 0) {
    alignas(64) uint8_t tiles[4 * kAmxTileBytes];
    AmxFillUp(leaf.weights, leaf.pairs, 4, tiles);
    AmxSingleBlock(leaf.first, tiles, kAmxTileBytes, kAmxRowBytes);
  }
  constexpr int64_t kStride = kMatMulGroupColumns * sizeof(float);
  AmxStore<0>(acc, kStride);
  AmxStore<1>(acc + 16, kStride);
  AmxStore<2>(acc + 32, kStride);
  AmxStore<3>(acc + 48, kStride);
}

// The same of two tiles of rows by two units: acc [first rows + second rows][32]. `*ahead` moves on
// by `ahead_lines` fetched lines for each block.
static inline void AmxPairLeaf(AmxLeaf leaf, int64_t first_rows, const uint8_t** ahead,
                               int64_t ahead_lines, float* acc) {
  AmxZero<0>();
  AmxZero<1>();
  AmxZero<2>();
  AmxZero<3>();
  for (; leaf.pairs >= kAmxBlockPairs; leaf.pairs -= kAmxBlockPairs) {
    for (int64_t line = 0; line < ahead_lines; ++line) {
      __builtin_prefetch(*ahead + 64 * line, 0, 2);
    }
    *ahead += 64 * ahead_lines;
    AmxPairBlock<true>(leaf.first, leaf.second, leaf.weights, kAmxRowBytes, kAmxGroupBytes);
    leaf.first += leaf.first_step;
    leaf.second += leaf.second_step;
    leaf.weights += kAmxBlockBytes;
  }
  if (leaf.pairs > 0) {
    alignas(64) uint8_t tiles[2 * kAmxTileBytes];
    AmxFillUp(leaf.weights, leaf.pairs, 2, tiles);
    AmxPairBlock<false>(leaf.first, leaf.second, tiles, kAmxTileBytes, kAmxRowBytes);
  }
  constexpr int64_t kStride = kAmxHalfColumns * sizeof(float);
  float* second = acc + first_rows * kAmxHalfColumns;
  AmxStore<0>(acc, kStride);
  AmxStore<1>(acc + 16, kStride);
  AmxStore<2>(second, kStride);
  AmxStore<3>(second + 16, kStride);
}

// acc [rows][cols] to rows [row, row + rows) and columns from `column` on of the output.
template <class S>
static void AmxStoreOut(const MatMulJob& job, int64_t row, int64_t rows, int64_t column,
                        int64_t cols, const float* acc) {
  const int64_t left = job.out_cols - column;
  for (int64_t r = 0; r < rows; ++r) {
    float* to = job.out + (row + r) * job.out_stride + column;
    for (int64_t i = 0; i < cols && i < left; i += 16) {
      StoreUpTo<S>(to + i, S::Load(acc + r * cols + i), left - i);
    }
  }
}

// What a call's tiles have in common.
struct AmxProduct {
  const MatMulJob* job;
  int64_t blocks;  // of k, of all leaves
  float* acc;      // a tile's or a pair's sums, then the open sums of the leaf tree
};

TUTTI_INLINE const uint8_t* AmxRowsAt(const AmxProduct& product, int64_t row) {
  return static_cast<const uint8_t*>(product.job->packed_in) + row * product.blocks * kAmxRowBytes;
}

// Rows [row, row + rows) of group `group`, at most 16.
template <class S>
static void AmxSingle(const AmxProduct& product, int64_t group, int64_t row, int64_t rows) {
  const MatMulJob& job = *product.job;
  const int64_t* begin = job.leaf_pair_begin;
  const uint8_t* weights = job.weight + group * begin[job.leaves] * kAmxGroupBytes;
  const int64_t floats = rows * kMatMulGroupColumns;
  const int64_t ahead =
      job.tuning.ahead_bytes == kAheadPiece ? 2 * kAmxBlockBytes : job.tuning.ahead_bytes;
  const uint8_t* in = AmxRowsAt(product, row);
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    const int64_t pairs = begin[leaf + 1] - begin[leaf];
    const int64_t step = rows * kAmxRowBytes;
    AmxSingleLeaf({in, nullptr, step, 0, weights + begin[leaf] * kAmxGroupBytes, pairs}, ahead,
                  product.acc);
    in += AmxBlocks(pairs) * step;
    if (job.leaves > 1) AddLeaf<S>(leaf, floats, floats, product.acc, product.acc + floats);
  }
  AmxStoreOut<S>(job, row, rows, group * kMatMulGroupColumns, kMatMulGroupColumns, product.acc);
}

// Rows [row, row + kAmxRows + second), by units `unit` and `unit` + 1 of group `group`.
template <class S>
static void AmxPair(const AmxProduct& product, int64_t group, int64_t unit, int64_t row,
                    int64_t second, const uint8_t** ahead, int64_t ahead_lines) {
  const MatMulJob& job = *product.job;
  const int64_t* begin = job.leaf_pair_begin;
  const uint8_t* weights =
      job.weight + group * begin[job.leaves] * kAmxGroupBytes + unit * kAmxRowBytes;
  const int64_t floats = (kAmxRows + second) * kAmxHalfColumns;
  const uint8_t* in = AmxRowsAt(product, row);
  const uint8_t* in_second = AmxRowsAt(product, row + kAmxRows);
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    const int64_t pairs = begin[leaf + 1] - begin[leaf];
    const AmxLeaf at = {in,
                        in_second,
                        kAmxTileBytes,
                        second * kAmxRowBytes,
                        weights + begin[leaf] * kAmxGroupBytes,
                        pairs};
    AmxPairLeaf(at, kAmxRows, ahead, ahead_lines, product.acc);
    in += AmxBlocks(pairs) * at.first_step;
    in_second += AmxBlocks(pairs) * at.second_step;
    if (job.leaves > 1) AddLeaf<S>(leaf, floats, floats, product.acc, product.acc + floats);
  }
  AmxStoreOut<S>(job, row, kAmxRows + second, group * kMatMulGroupColumns + unit * 16,
                 kAmxHalfColumns, product.acc);
}

// Rows that share a pass over the weights: as many as keep the packed rows in the second cache
// beside a group, whose rows are read once for every 32 columns.
TUTTI_INLINE int64_t AmxRowBlock(int64_t blocks) {
  if (blocks == 0) return kAmxRowBlockMost;
  const int64_t fit = kAmxPanelBytes / (blocks * kAmxRowBytes) / (2 * kAmxRows) * (2 * kAmxRows);
  if (fit < kAmxRowBlockLeast) return kAmxRowBlockLeast;
  return fit < kAmxRowBlockMost ? fit : kAmxRowBlockMost;
}

// The configuration that the thread's tiles have, changed where a shape needs another.
class AmxShape {
 public:
  AmxShape() = default;
  AmxShape(const AmxShape&) = delete;
  AmxShape& operator=(const AmxShape&) = delete;
  ~AmxShape() { AmxRelease(); }
  // A pair of tiles of `first` and `second` rows, or a single one where `second` is 0.
  [[gnu::always_inline]] void Take(int64_t first, int64_t second) {
    if (first == first_ && second == second_) return;
    first_ = first;
    second_ = second;
    AmxConfigure(AmxTilesOf(first, second));
  }

 private:
  int64_t first_ = 0;
  int64_t second_ = 0;
};

// Rows [begin, end) of group `group`: pairs of tiles, then what is left as a smaller pair or one
// tile.
template <class S>
static void AmxGroup(const AmxProduct& product, int64_t group, int64_t begin, int64_t end,
                     AmxShape* shape) {
  constexpr int64_t kPairRows = 2 * kAmxRows;
  const int64_t rest = (end - begin) % kPairRows;
  const int64_t pairs = (end - begin) / kPairRows + (rest > kAmxRows ? 1 : 0);
  // The next group's lines, shared out among all blocks of this one.
  const int64_t group_bytes = product.job->leaf_pair_begin[product.job->leaves] * kAmxGroupBytes;
  const uint8_t* ahead = product.job->weight + (group + 1) * group_bytes;
  const bool fetch = product.job->tuning.ahead_bytes != kAheadOff && pairs > 0;
  const int64_t lines = fetch ? (kAmxBlockBytes / 64 + 2 * pairs - 1) / (2 * pairs) : 0;
  for (int64_t unit = 0; unit < kMatMulGroupUnits; unit += 2) {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const int64_t row = begin + pair * kPairRows;
      const int64_t second = end - row < kPairRows ? end - row - kAmxRows : kAmxRows;
      shape->Take(kAmxRows, second);
      AmxPair<S>(product, group, unit, row, second, &ahead, lines);
    }
  }
  if (rest > 0 && rest <= kAmxRows) {
    shape->Take(rest, 0);
    AmxSingle<S>(product, group, end - rest, rest);
  }
}

template <class S>
static void AmxMatMulGroups(const MatMulJob& job, int64_t group_begin, int64_t group_end,
                            float* scratch, uint64_t* slices) {
  const AmxProduct product = {&job, AmxBlocksOfLeaves(job, job.leaves), scratch};
  const int64_t row_block = AmxRowBlock(product.blocks);
  AmxShape shape;
  for (int64_t begin = 0; begin < job.rows; begin += row_block) {
    const int64_t end = job.rows < begin + row_block ? job.rows : begin + row_block;
    for (int64_t group = group_begin; group < group_end; ++group) {
      AmxGroup<S>(product, group, begin, end, &shape);
      CountSlice(slices);
    }
  }
}

}  // namespace
}  // namespace tutti::kernels::cpu
