// Matrix products over packed weights, for one row as for a thousand.
//
// Every output element is one chain of fused multiply-adds over the k of a leaf, in order, or one
// of sums of blocks, for any number of rows: tiles of rows and panels of columns only choose which
// chains run side by side. Leaves are then added in their binary tree. Accumulators that go to
// memory between chunks are f32 and lose nothing.
#pragma once

#include <cstdint>

#include "kernels/cpu/formats.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/slice_count.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

inline constexpr int kMatMulGroupUnits = 4;
inline constexpr int kMatMulGroupColumns = 64;

// Where the memory of the next pieces of weight lies, to be fetched while this one is multiplied.
// All calls that share a piece divide the fetching of the next one evenly: bunched up, the fetches
// would fill the line buffers and stall the multiplication. `step` bytes from one fetch to the
// next, at most a line; fetches nothing with kAhead false.
struct Ahead {
  const uint8_t* at;
  int64_t step;
};

// Adds `pairs` steps to acc, or as many blocks as they are. Unit p of a pair lies at
// w + p * kUnitBytes, the next pair w_step further.
template <class Format, bool kAhead, int R, int P>
TUTTI_INLINE void Accumulate(typename Format::F (&acc)[R][P], const uint8_t* w, int64_t w_step,
                             const typename Format::A* a, int64_t row_step, int64_t pair_step,
                             int64_t pairs, Ahead ahead) {
  const auto units = [&](const uint8_t* pair, const uint8_t*(&unit)[P], bool fetch) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) unit[p] = pair + p * Format::kUnitBytes;
    if (kAhead && fetch) {
#pragma GCC unroll 8
      for (int line = 0; line < P * Format::kUnitBytes / 64; ++line) {
        __builtin_prefetch(ahead.at, 0, 3);
        ahead.at += ahead.step;
      }
    }
  };
  if constexpr (Format::kBlockPairs > 0) {
    const auto at = [&](int64_t pair, const uint8_t*(&unit)[P], bool first) {
      units(w + pair * w_step, unit, first);
    };
    Format::Blocks(acc, 0, pairs, at, a, row_step, pair_step);
  } else {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const uint8_t* unit[P];
      units(w, unit, true);
      Format::Step(acc, unit, a, row_step);
      w += w_step;
      a += pair_step;
    }
  }
}

// Sums of a piece that go on from where memory has them, or are the first of their leaf.
struct KeptSums {
  bool first;

  template <class S>
  [[gnu::always_inline]] typename S::F Begin(const float* acc) const {
    return first ? S::Zero() : S::Load(acc);
  }
  // To acc [R][64].
  template <class S, int R, int P>
  [[gnu::always_inline]] void End(const typename S::F (&sum)[R][P], float* acc) const {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) S::Store(acc + r * kMatMulGroupColumns + 16 * p, sum[r][p]);
    }
  }
  // Of the columns from panel `panel` on.
  [[gnu::always_inline]] KeptSums From(int64_t panel) const {
    (void)panel;
    return *this;
  }
};

// One tile of R rows by P panels over `pairs` pairs; `acc` [R][64].
template <class Format, bool kAhead, int R, int P, class Sums>
[[gnu::noinline]] static void RunTile(const uint8_t* w, const typename Format::A* a, int64_t pairs,
                                      Sums sums, float* acc, Ahead ahead) {
  using S = typename Format::Simd;
  typename Format::F sum[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      sum[r][p] = sums.template Begin<S>(acc + r * kMatMulGroupColumns + 16 * p);
    }
  }
  uint32_t state = 0;
  Format::Chains::Begin(sum, &state);
  Accumulate<Format, kAhead>(sum, w, kMatMulGroupUnits * Format::kUnitBytes, a, Format::kPerPair,
                             R * Format::kPerPair, pairs, ahead);
  Format::Chains::End(sum, state);
  sums.template End<S>(sum, acc);
}

// Whether a product reads each group once, from its first byte to its last, keeping every
// accumulator in a register: then its piece is the whole leaf.
template <class Format>
TUTTI_INLINE bool Streams(int64_t rows, int64_t tiles) {
  return tiles == 1 && Format::Simd::Panels(static_cast<int>(rows)) == kMatMulGroupUnits;
}

// What the tiles of a piece have in common.
template <class Sums>
struct Piece {
  int64_t pairs;  // whole blocks of a format that has them, but for a leaf's last
  Sums sums;
  int64_t tiles;
  int64_t ahead_bytes;  // ProductTuning's
};

// Tile `tile`, R rows by a whole group.
template <class Format, int R, class Sums>
static void RunTileRow(const uint8_t* w, const typename Format::A* a, Piece<Sums> piece,
                       int64_t tile, float* acc) {
  constexpr int P = Format::Simd::Panels(R);
  constexpr int64_t kPairBytes = kMatMulGroupUnits * Format::kUnitBytes;
  if (piece.ahead_bytes == kAheadOff) {
    for (int panel = 0; panel < kMatMulGroupUnits; panel += P) {
      RunTile<Format, false, R, P>(w + panel * Format::kUnitBytes, a, piece.pairs,
                                   piece.sums.From(panel), acc + 16 * panel, {});
    }
    return;
  }
  const int64_t distance =
      piece.ahead_bytes == kAheadPiece ? piece.pairs * kPairBytes : piece.ahead_bytes;
  Ahead ahead = {w + distance, (64 + piece.tiles - 1) / piece.tiles};
  const int64_t run = piece.pairs * (P * Format::kUnitBytes / 64) * ahead.step;
  ahead.at += tile * (kMatMulGroupUnits / P) * run;
  for (int panel = 0; panel < kMatMulGroupUnits; panel += P, ahead.at += run) {
    RunTile<Format, true, R, P>(w + panel * Format::kUnitBytes, a, piece.pairs,
                                piece.sums.From(panel), acc + 16 * panel, ahead);
  }
}

template <class Format, class Sums>
static void RunTileRows(int64_t rows, const uint8_t* w, const typename Format::A* a,
                        Piece<Sums> piece, int64_t tile, float* acc) {
  switch (rows) {
    case 1:
      return RunTileRow<Format, 1>(w, a, piece, tile, acc);
    case 2:
      return RunTileRow<Format, 2>(w, a, piece, tile, acc);
    case 3:
      return RunTileRow<Format, 3>(w, a, piece, tile, acc);
    case 4:
      return RunTileRow<Format, 4>(w, a, piece, tile, acc);
    case 5:
      return RunTileRow<Format, 5>(w, a, piece, tile, acc);
    default:
      static_assert(kTileRows == 6);
      return RunTileRow<Format, 6>(w, a, piece, tile, acc);
  }
}

// Leaf `leaf` of one group for one block of rows; acc [rows][64].
template <class Format>
static void RunLeaf(const MatMulJob& job, const uint8_t* group, int64_t leaf, RowBlock block,
                    float* acc) {
  using A = typename Format::A;
  constexpr int64_t kPairBytes = kMatMulGroupUnits * Format::kUnitBytes;
  const int64_t total = job.leaf_pair_begin[job.leaves];
  const int64_t begin = job.leaf_pair_begin[leaf];
  const int64_t end = job.leaf_pair_begin[leaf + 1];
  const int64_t most =
      Streams<Format>(block.rows, block.tiles) ? end - begin : job.tuning.piece_pairs;
  const A* packed = static_cast<const A*>(job.packed_in) + block.begin * total * Format::kPerPair;
  int64_t pair = begin;
  do {  // at least once: an empty leaf is a sum of nothing, and must be written as such
    const int64_t pairs = end - pair < most ? end - pair : most;
    const Piece<KeptSums> piece = {pairs, {pair == begin}, block.tiles, job.tuning.ahead_bytes};
    for (int64_t tile = 0; tile < block.tiles; ++tile) {
      const RowTile t = TileOf(block, tile);
      const A* a = packed + (t.begin * total + pair * t.rows) * Format::kPerPair;
      RunTileRows<Format>(t.rows, group + pair * kPairBytes, a, piece, tile,
                          acc + t.begin * kMatMulGroupColumns);
    }
    pair += pairs;
  } while (pair < end);
}

// Leaf `leaf` of `count` groups, one behind the other in memory, for a block of one tile: some
// pairs of each in turn, so that the processor sees `count` streams to fetch from at once. acc
// [count][rows][64].
template <class Format>
static void RunLeafInTurns(const MatMulJob& job, const uint8_t* group, int64_t count, int64_t leaf,
                           RowBlock block, float* acc) {
  constexpr int64_t kPairBytes = kMatMulGroupUnits * Format::kUnitBytes;
  constexpr int64_t kTurnPairs =
      Format::kBlockPairs > 0 ? Format::kBlockPairs : kStreamTurnBytes / kPairBytes;
  const int64_t total = job.leaf_pair_begin[job.leaves];
  const int64_t begin = job.leaf_pair_begin[leaf];
  const int64_t end = job.leaf_pair_begin[leaf + 1];
  const auto* packed = static_cast<const typename Format::A*>(job.packed_in) +
                       block.begin * total * Format::kPerPair;
  int64_t pair = begin;
  do {  // at least once, as in RunLeaf
    const int64_t pairs = end - pair < kTurnPairs ? end - pair : kTurnPairs;
    const Piece<KeptSums> piece = {pairs, {pair == begin}, 1, job.tuning.ahead_bytes};
    for (int64_t g = 0; g < count; ++g) {
      RunTileRows<Format>(block.rows, group + (g * total + pair) * kPairBytes,
                          packed + pair * block.rows * Format::kPerPair, piece, 0,
                          acc + g * block.rows * kMatMulGroupColumns);
    }
    pair += pairs;
  } while (pair < end);
}

// Adds finished leaf sums in the tree of neighbours: like counting in binary, leaf number `leaf`
// completes as many levels as it has trailing one bits. level[i] [rows][64] holds the open left sum
// of level i, `stride` floats apart.
template <class S>
static void AddLeaf(int64_t leaf, int64_t count, int64_t stride, float* acc, float* levels) {
  int64_t level = 0;
  for (; (leaf >> level) & 1; ++level) {
    const float* left = levels + level * stride;
    for (int64_t i = 0; i < count; i += 16) {
      S::Store(acc + i, S::Add(S::Load(left + i), S::Load(acc + i)));
    }
  }
  float* open = levels + level * stride;
  for (int64_t i = 0; i < count; i += 16) S::Store(open + i, S::Load(acc + i));
}

// Group `g` of a block's rows to where they belong, from acc [rows][64].
template <class S>
static void StoreGroup(const MatMulJob& job, int64_t g, RowBlock block, const float* acc) {
  const int64_t cols = job.out_cols - g * kMatMulGroupColumns;
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* from = acc + r * kMatMulGroupColumns;
    float* to = job.out + (block.begin + r) * job.out_stride + g * kMatMulGroupColumns;
    for (int64_t i = 0; i < kMatMulGroupColumns && i < cols; i += 16) {
      StoreUpTo<S>(to + i, S::Load(from + i), cols - i);
    }
  }
}

template <class Format>
static void MatMulGroups(const MatMulJob& job, int64_t group_begin, int64_t group_end,
                         float* scratch, uint64_t* slices) {
  using S = typename Format::Simd;
  constexpr int64_t kPairBytes = kMatMulGroupUnits * Format::kUnitBytes;
  float* acc = scratch;
  const int64_t row_block = job.tuning.row_block;
  const int64_t stride = row_block * kMatMulGroupColumns;
  float* levels = scratch + stride;
  for (RowBlock block = FirstBlock(job.rows, row_block); block.rows > 0;
       block = NextBlock(block, job.rows, row_block)) {
    const int64_t floats = block.rows * kMatMulGroupColumns;  // of a group
    const int64_t streams = block.rows <= S::kTurnRows ? job.tuning.streams : 1;
    int64_t count = 0;
    for (int64_t g = group_begin; g < group_end; g += count) {
      // As even as possible: five groups by four streams are three and two.
      const int64_t left = group_end - g;
      count = left / ((left + streams - 1) / streams);
      const uint8_t* group = job.weight + g * job.leaf_pair_begin[job.leaves] * kPairBytes;
      for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
        if (count == 1) {
          RunLeaf<Format>(job, group, leaf, block, acc);
        } else {
          RunLeafInTurns<Format>(job, group, count, leaf, block, acc);
        }
        if (job.leaves > 1) AddLeaf<S>(leaf, count * floats, stride, acc, levels);
      }
      for (int64_t i = 0; i < count; ++i) {
        StoreGroup<S>(job, g + i, block, acc + i * floats);
        CountSlice(slices);
      }
    }
  }
}

}  // namespace tutti::kernels::cpu
