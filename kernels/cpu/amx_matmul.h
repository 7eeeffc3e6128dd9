// Matrix products in AMX's tiles: the bits of BlockFormat, over the same packed weights. A unit of
// 16 columns by a pair of k is a row of a tile of weights, so nothing is packed anew.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <cstdint>

#include "kernels/cpu/amx_pack.h"
#include "kernels/cpu/amx_sums.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/slice_count.h"
#include "kernels/cpu/tiles.h"

namespace tutti::kernels::cpu {
namespace {

inline constexpr int64_t kAmxHalfColumns = 32;  // of a pair of tiles
inline constexpr int64_t kMatMulLineFloats = 16;

// Fetches the lines of unit `unit` of a block.
TUTTI_INLINE void AmxFetchUnit(const uint8_t* block, int64_t unit) {
#pragma GCC unroll 16
  for (int64_t pair = 0; pair < kAmxBlockPairs; ++pair) {
    __builtin_prefetch(block + pair * kAmxGroupBytes + unit * kAmxRowBytes, 0, 3);
  }
}

// One tile of rows by the four units of a group. `weights` may be a filled-up block, whose units
// are `unit_step` bytes apart and whose pairs `pair_step`. The block at `ahead` is fetched
// meanwhile; none where it is null.
TUTTI_INLINE void AmxSingleBlock(const uint8_t* in, const uint8_t* weights, int64_t unit_step,
                                 int64_t pair_step, const uint8_t* ahead) {
  if (ahead != nullptr) {
    // Into the second cache, farther ahead: every other line, as lines come in pairs.
    for (int64_t at = 0; at < kAmxBlockBytes; at += 128) {
      __builtin_prefetch(ahead + kTileFarBytes + at, 0, 2);
    }
    AmxFetchUnit(ahead, 0);
  }
  AmxLoad<4>(in, kAmxRowBytes);
  AmxLoad<5>(weights, pair_step);
  if (ahead != nullptr) AmxFetchUnit(ahead, 1);
  AmxMultiply<0, 4, 5>();
  AmxLoad<6>(weights + unit_step, pair_step);
  if (ahead != nullptr) AmxFetchUnit(ahead, 2);
  AmxMultiply<1, 4, 6>();
  AmxLoad<7>(weights + 2 * unit_step, pair_step);
  if (ahead != nullptr) AmxFetchUnit(ahead, 3);
  AmxMultiply<2, 4, 7>();
  AmxLoad<5>(weights + 3 * unit_step, pair_step);
  AmxMultiply<3, 4, 5>();
}

// What is fetched into the first cache while a pair of tiles is multiplied: the next block's rows
// and weights.
TUTTI_INLINE void AmxFetch(const uint8_t* from, int64_t step) {
#pragma GCC unroll 16
  for (int line = 0; line < kAmxRows; ++line) __builtin_prefetch(from + line * step, 0, 3);
}

// Two tiles of rows by two units, whose pairs are `pair_step` bytes apart; `next` bytes on lie the
// next block's weights.
TUTTI_INLINE void AmxPairBlock(const uint8_t* first, const uint8_t* second, int64_t second_bytes,
                               const uint8_t* weights, int64_t unit_step, int64_t pair_step,
                               int64_t next) {
  AmxLoad<4>(weights, pair_step);
  AmxLoad<6>(first, kAmxRowBytes);
  AmxFetch(first + kAmxTileBytes, kAmxRowBytes);
  AmxFetch(weights + next, pair_step);
  AmxMultiply<0, 6, 4>();
  AmxLoad<5>(weights + unit_step, pair_step);
  AmxMultiply<1, 6, 5>();
  AmxLoad<7>(second, kAmxRowBytes);
  AmxFetch(second + second_bytes, kAmxRowBytes);
  AmxFetch(weights + next + unit_step, pair_step);
  AmxMultiply<2, 7, 4>();
  AmxMultiply<3, 7, 5>();
}

// A leaf's packed rows, and its weights: where they lie in the group, or, for many rows, as tiles
// of a panel.
struct AmxLeaf {
  const uint8_t* first;   // rows of the first tile
  const uint8_t* second;  // of the second
  int64_t first_step;     // bytes from a block's rows to the next one's
  int64_t second_step;
  const uint8_t* weights;  // of the first unit
  int64_t pairs;
};

// Sums of a leaf, one tile of rows by four units, to `to` with rows `stride` floats apart.
static inline void AmxSingleLeaf(AmxLeaf leaf, int64_t ahead_bytes, float* to, int64_t stride) {
  AmxZero<0>();
  AmxZero<1>();
  AmxZero<2>();
  AmxZero<3>();
  for (; leaf.pairs >= kAmxBlockPairs; leaf.pairs -= kAmxBlockPairs) {
    AmxSingleBlock(leaf.first, leaf.weights, kAmxRowBytes, kAmxGroupBytes,
                   ahead_bytes > 0 ? leaf.weights + ahead_bytes : nullptr);
    leaf.first += leaf.first_step;
    leaf.weights += kAmxBlockBytes;
  }
  if (leaf.pairs > 0) {
    alignas(64) uint8_t tiles[4 * kAmxTileBytes];
    AmxFillUp(leaf.weights, leaf.pairs, 4, tiles);
    AmxSingleBlock(leaf.first, tiles, kAmxTileBytes, kAmxRowBytes, nullptr);
  }
  const int64_t step = stride * static_cast<int64_t>(sizeof(float));
  AmxStore<0>(to, step);
  AmxStore<1>(to + 16, step);
  AmxStore<2>(to + 32, step);
  AmxStore<3>(to + 48, step);
}

// The same of two tiles of rows, the first of kAmxRows, by two units. kPanel: whose weights are
// tiles of a panel. `*ahead` moves on by `ahead_lines` fetched lines for each block.
template <bool kPanel>
static inline void AmxPairLeaf(AmxLeaf leaf, const uint8_t** ahead, int64_t ahead_lines, float* to,
                               int64_t stride) {
  AmxZero<0>();
  AmxZero<1>();
  AmxZero<2>();
  AmxZero<3>();
  const int64_t whole = kPanel ? AmxBlocks(leaf.pairs) : leaf.pairs / kAmxBlockPairs;
  for (int64_t block = 0; block < whole; ++block) {
    for (int64_t line = 0; line < ahead_lines; ++line) {
      __builtin_prefetch(*ahead + 64 * line, 0, 2);
    }
    *ahead += 64 * ahead_lines;
    if constexpr (kPanel) {
      AmxPairBlock(leaf.first, leaf.second, leaf.second_step, leaf.weights, kAmxTileBytes,
                   kAmxRowBytes, 2 * kAmxTileBytes);
      leaf.weights += 2 * kAmxTileBytes;
    } else {
      AmxPairBlock(leaf.first, leaf.second, leaf.second_step, leaf.weights, kAmxRowBytes,
                   kAmxGroupBytes, kAmxBlockBytes);
      leaf.weights += kAmxBlockBytes;
    }
    leaf.first += leaf.first_step;
    leaf.second += leaf.second_step;
  }
  if (!kPanel && leaf.pairs % kAmxBlockPairs > 0) {
    alignas(64) uint8_t tiles[2 * kAmxTileBytes];
    AmxFillUp(leaf.weights, leaf.pairs % kAmxBlockPairs, 2, tiles);
    AmxPairBlock(leaf.first, leaf.second, leaf.second_step, tiles, kAmxTileBytes, kAmxRowBytes, 0);
  }
  const int64_t step = stride * static_cast<int64_t>(sizeof(float));
  float* second = to + kAmxRows * stride;
  AmxStore<0>(to, step);
  AmxStore<1>(to + 16, step);
  AmxStore<2>(second, step);
  AmxStore<3>(second + 16, step);
}

// What a call's tiles have in common.
struct AmxProduct {
  const MatMulJob* job;
  int64_t blocks;  // of k, of all leaves
  float* open;     // AmxSums's
  uint8_t* panel;  // [blocks][2] tiles
  bool around;     // AmxSums's
};

TUTTI_INLINE const uint8_t* AmxRowsAt(const AmxProduct& product, int64_t row) {
  return static_cast<const uint8_t*>(product.job->packed_in) + row * product.blocks * kAmxRowBytes;
}
TUTTI_INLINE const uint8_t* AmxGroupAt(const AmxProduct& product, int64_t group) {
  const MatMulJob& job = *product.job;
  return job.weight + group * job.leaf_pair_begin[job.leaves] * kAmxGroupBytes;
}
TUTTI_INLINE AmxSums AmxSumsAt(const AmxProduct& product, int64_t row, int64_t rows, int64_t column,
                               int64_t cols) {
  const MatMulJob& job = *product.job;
  return {.out = job.out + row * job.out_stride + column,
          .out_stride = job.out_stride,
          .rows = rows,
          .cols = cols,
          .out_cols = job.out_cols - column,
          .around = product.around && job.out_cols - column >= cols,
          .leaves = job.leaves,
          .open = product.open};
}

// Rows [row, row + rows) of group `group`, at most 16.
template <class S>
static void AmxSingle(const AmxProduct& product, int64_t group, int64_t row, int64_t rows) {
  const MatMulJob& job = *product.job;
  const int64_t* begin = job.leaf_pair_begin;
  const AmxSums sums =
      AmxSumsAt(product, row, rows, group * kMatMulGroupColumns, kMatMulGroupColumns);
  const bool out = AmxStoresOut(sums);
  const int64_t ahead =
      job.tuning.ahead_bytes == kAheadPiece ? kTileAheadBytes : job.tuning.ahead_bytes;
  const uint8_t* in = AmxRowsAt(product, row);
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    const AmxLeaf at = {.first = in,
                        .second = nullptr,
                        .first_step = rows * kAmxRowBytes,
                        .second_step = 0,
                        .weights = AmxGroupAt(product, group) + begin[leaf] * kAmxGroupBytes,
                        .pairs = begin[leaf + 1] - begin[leaf]};
    AmxSingleLeaf(at, ahead, out ? sums.out : AmxLeafSums(sums, leaf),
                  out ? sums.out_stride : sums.cols);
    AmxEndLeaf<S>(sums, leaf);
    in += AmxBlocks(at.pairs) * at.first_step;
  }
}

// Where a pair of tiles is: its rows, the second of `second`, and its first unit.
struct AmxPairAt {
  int64_t group;
  int64_t unit;
  int64_t row;
  int64_t second;
};

// Rows [row, row + kAmxRows + second), by units `unit` and `unit` + 1 of the group.
template <class S, bool kPanel>
static void AmxPair(const AmxProduct& product, const AmxPairAt& pair, const uint8_t** ahead,
                    int64_t ahead_lines) {
  const MatMulJob& job = *product.job;
  const AmxSums sums =
      AmxSumsAt(product, pair.row, kAmxRows + pair.second,
                pair.group * kMatMulGroupColumns + pair.unit * 16, kAmxHalfColumns);
  if (sums.out_cols <= 0) return;
  const bool out = AmxStoresOut(sums);
  AmxLeaf at = {.first = AmxRowsAt(product, pair.row),
                .second = AmxRowsAt(product, pair.row + kAmxRows),
                .first_step = kAmxTileBytes,
                .second_step = pair.second * kAmxRowBytes,
                .weights = product.panel,
                .pairs = 0};
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    const int64_t begin = job.leaf_pair_begin[leaf];
    at.pairs = job.leaf_pair_begin[leaf + 1] - begin;
    if (!kPanel) {
      at.weights =
          AmxGroupAt(product, pair.group) + pair.unit * kAmxRowBytes + begin * kAmxGroupBytes;
    }
    AmxPairLeaf<kPanel>(at, ahead, ahead_lines, out ? sums.out : AmxLeafSums(sums, leaf),
                        out ? sums.out_stride : sums.cols);
    AmxEndLeaf<S>(sums, leaf);
    const int64_t blocks = AmxBlocks(at.pairs);
    at.first += blocks * at.first_step;
    at.second += blocks * at.second_step;
    if (kPanel) at.weights += blocks * 2 * kAmxTileBytes;
  }
}

// Rows that share a pass over the weights: as many as keep the packed rows in the second cache
// beside a panel, whose rows are read once for every 32 columns; in blocks of about one size.
TUTTI_INLINE int64_t AmxRowBlock(int64_t rows, int64_t blocks) {
  constexpr int64_t kPairRows = 2 * kAmxRows;
  const int64_t fit = blocks == 0 ? rows : kAmxPanelBytes / (blocks * kAmxRowBytes);
  const int64_t most = fit < kAmxRowBlockLeast  ? kAmxRowBlockLeast
                       : fit > kAmxRowBlockMost ? kAmxRowBlockMost
                                                : fit;
  const int64_t passes = (rows + most - 1) / most;
  return ((rows + passes - 1) / passes + kPairRows - 1) / kPairRows * kPairRows;
}

// The configuration that the thread's tiles have, changed where a shape needs another. AmxRelease
// follows its last use; not as a destructor, whose exception tables are shared symbols.
class AmxShape {
 public:
  AmxShape() = default;
  AmxShape(const AmxShape&) = delete;
  AmxShape& operator=(const AmxShape&) = delete;
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
  const uint8_t* ahead = AmxGroupAt(product, group + 1);
  const bool fetch = product.job->tuning.ahead_bytes != kAheadOff && pairs > 0;
  const int64_t lines = fetch ? (kAmxBlockBytes / 64 + 2 * pairs - 1) / (2 * pairs) : 0;
  const bool panel = pairs >= kAmxPanelPairs;
  for (int64_t unit = 0; pairs > 0 && unit < kMatMulGroupUnits; unit += 2) {
    if (panel) {
      AmxPanel(*product.job, AmxGroupAt(product, group) + unit * kAmxRowBytes, product.panel);
    }
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const int64_t row = begin + pair * kPairRows;
      const int64_t second = end - row < kPairRows ? end - row - kAmxRows : kAmxRows;
      shape->Take(kAmxRows, second);
      const AmxPairAt at = {group, unit, row, second};
      if (panel) {
        AmxPair<S, true>(product, at, &ahead, lines);
      } else {
        AmxPair<S, false>(product, at, &ahead, lines);
      }
    }
  }
  if (rest > 0 && rest <= kAmxRows) {
    shape->Take(rest, 0);
    AmxSingle<S>(product, group, end - rest, rest);
  }
}

// Outputs that are larger than a cache and are made of whole lines.
TUTTI_INLINE bool AmxGoesAround(const MatMulJob& job) {
  const bool lines =
      reinterpret_cast<uintptr_t>(job.out) % 64 == 0 && job.out_stride % kMatMulLineFloats == 0;
  return lines && job.rows * job.out_cols * 4 >= kAmxAroundBytes;
}

template <class S>
static void AmxMatMulGroups(const MatMulJob& job, int64_t group_begin, int64_t group_end,
                            float* scratch, uint64_t* slices) {
  const AmxProduct product = {
      .job = &job,
      .blocks = AmxBlocksOfLeaves(job, job.leaves),
      .open = scratch,
      .panel = reinterpret_cast<uint8_t*>(scratch + AmxOpenFloats(job.leaves)),
      .around = AmxGoesAround(job)};
  const int64_t row_block = AmxRowBlock(job.rows, product.blocks);
  AmxShape shape;
  for (int64_t begin = 0; begin < job.rows; begin += row_block) {
    const int64_t end = job.rows < begin + row_block ? job.rows : begin + row_block;
    for (int64_t group = group_begin; group < group_end; ++group) {
      AmxGroup<S>(product, group, begin, end, &shape);
      CountSlice(slices);
    }
  }
  AmxRelease();
  if (product.around) S::FenceStores();
}

}  // namespace
}  // namespace tutti::kernels::cpu
