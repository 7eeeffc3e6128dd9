// Matrix products over codes: a piece of a strip becomes bf16 in the first cache, and is
// multiplied there as any weight is, or for few rows in registers (quantised_few.h); each strip's
// sums are then added with their scales.
#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/quantised_few.h"
#include "kernels/cpu/quantised_strip.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

// Of scratch: a piece as units of bf16.
inline constexpr int64_t kQuantisedPanelFloats = kQuantisedPiecePairs * kMatMulGroupColumns;

// Where the units of a pair go, and those of the next.
struct QuantisedTarget {
  uint8_t* out;
  int64_t pair_step;
  int64_t unit_step;
};

// `lines` times kUnits neighbouring lines, of 4 each. What lies `ahead` bytes on is fetched
// meanwhile. Beside them lie their zero points, or inner scales.
template <class Codes, CodeKind kKind, bool kZeros, int kUnits>
TUTTI_INLINE void ExpandLines(const uint8_t* codes, int64_t lines, const uint8_t* beside,
                              QuantisedTarget to, int64_t ahead) {
  typename Codes::Table table;
  Codes::template LoadTable<kKind, kZeros>(&table);
  typename Codes::Zeros zero[kUnits];
#pragma GCC unroll 4
  for (int unit = 0; unit < kUnits; ++unit) {
    if constexpr (kZeros) {
      zero[unit] = Codes::template LoadZeros<kKind>(beside + 16 * unit);
    } else {
      zero[unit] = Codes::template UsualZeros<kKind>();
    }
  }
  for (int64_t line = 0; line < lines; ++line) {
#pragma GCC unroll 4
    for (int unit = 0; unit < kUnits; ++unit) {
      if constexpr (kKind == CodeKind::kNvfp4) {
        if (line % kInnerLines == 0) zero[unit] = Codes::LoadInner(beside + 16 * unit);
      }
      const uint8_t* from = codes + unit * kQuantisedLineBytes;
      if (ahead > 0) __builtin_prefetch(from + ahead, 0, 3);
      Codes::template Line<kKind, kZeros>(from, table, zero[unit], to.out + unit * to.unit_step,
                                          to.pair_step);
    }
    codes += kMatMulGroupUnits * kQuantisedLineBytes;
    if constexpr (kKind == CodeKind::kNvfp4) {
      if (line % kInnerLines == kInnerLines - 1) beside += kMatMulGroupColumns;
    }
    to.out += QuantisedLinePairs(kKind) * to.pair_step;
  }
}

// Pairs [begin, begin + pairs) of a strip, units [unit, unit + kUnits).
template <class Codes, int kUnits>
static void ExpandCodes(CodeKind kind, const QuantisedStrip& strip, int64_t begin, int64_t pairs,
                        int64_t unit, QuantisedTarget to, int64_t ahead) {
  const int64_t per_line = QuantisedLinePairs(kind);
  const uint8_t* codes =
      strip.codes + (begin / per_line * kMatMulGroupUnits + unit) * kQuantisedLineBytes;
  const uint8_t* zeros = strip.zeros == nullptr ? nullptr : strip.zeros + 16 * unit;
  const int64_t lines = pairs / per_line;
  switch (kind) {
    case CodeKind::kInt4:
      if (zeros != nullptr) {
        ExpandLines<Codes, CodeKind::kInt4, true, kUnits>(codes, lines, zeros, to, ahead);
      } else {
        ExpandLines<Codes, CodeKind::kInt4, false, kUnits>(codes, lines, zeros, to, ahead);
      }
      return;
    case CodeKind::kInt8:
      if (zeros != nullptr) {
        ExpandLines<Codes, CodeKind::kInt8, true, kUnits>(codes, lines, zeros, to, ahead);
      } else {
        ExpandLines<Codes, CodeKind::kInt8, false, kUnits>(codes, lines, zeros, to, ahead);
      }
      return;
    case CodeKind::kE2m1:
      return ExpandLines<Codes, CodeKind::kE2m1, false, kUnits>(codes, lines, zeros, to, ahead);
    case CodeKind::kE4m3:
      return ExpandLines<Codes, CodeKind::kE4m3, false, kUnits>(codes, lines, zeros, to, ahead);
    case CodeKind::kNvfp4: {
      const uint8_t* const inner =
          strip.inner + begin / kInnerPairs * kMatMulGroupColumns + 16 * unit;
      return ExpandLines<Codes, CodeKind::kNvfp4, false, kUnits>(codes, lines, inner, to, ahead);
    }
  }
}

// The same of codes of 8 bits as integers of 16, all four units.
template <class Codes>
static void ExpandIntegers(const QuantisedStrip& strip, int64_t begin, int64_t pairs,
                           QuantisedTarget to, int64_t ahead) {
  constexpr int64_t kLinePairs = 2;
  const uint8_t* line = strip.codes + begin / kLinePairs * kMatMulGroupUnits * kQuantisedLineBytes;
  for (int64_t pair = 0; pair < pairs; pair += kLinePairs, to.out += kLinePairs * to.pair_step) {
#pragma GCC unroll 4
    for (int unit = 0; unit < kMatMulGroupUnits; ++unit, line += kQuantisedLineBytes) {
      if (ahead > 0) __builtin_prefetch(line + ahead, 0, 3);
      Codes::IntegerLine(line, to.out + unit * to.unit_step, to.pair_step);
    }
  }
}

// acc = fma(part, scale, acc) of `rows` rows by kColumns columns, rows `stride` floats apart in
// both; from +0 on where it is the leaf's first strip.
template <class S, int kColumns>
TUTTI_INLINE void AddScaled(const float* part, const uint8_t* scales, DType type, int64_t rows,
                            bool first, float* acc) {
  typename S::F scale[kColumns / 16];
#pragma GCC unroll 4
  for (int p = 0; p < kColumns / 16; ++p) scale[p] = LoadScales<S>(scales, type, 16 * p);
  for (int64_t r = 0; r < rows; ++r, part += kColumns, acc += kColumns) {
#pragma GCC unroll 4
    for (int p = 0; p < kColumns / 16; ++p) {
      const typename S::F before = first ? S::Zero() : S::Load(acc + 16 * p);
      S::Store(acc + 16 * p, S::Fma(S::Load(part + 16 * p), scale[p], before));
    }
  }
}

// acc = fma(part as f32 * the row's scale, scale, +0) of a leaf's only strip of integers.
template <class S>
TUTTI_INLINE void ScaleIntegers(const float* part, const float* row_scales, const uint8_t* scales,
                                DType type, int64_t rows, float* acc) {
  typename S::F scale[kMatMulGroupUnits];
#pragma GCC unroll 4
  for (int p = 0; p < kMatMulGroupUnits; ++p) scale[p] = LoadScales<S>(scales, type, 16 * p);
  for (int64_t r = 0; r < rows; ++r) {
    const typename S::F of_row = S::Set(row_scales[r]);
#pragma GCC unroll 4
    for (int p = 0; p < kMatMulGroupUnits; ++p, part += 16, acc += 16) {
      const typename S::F sum = S::Mul(S::FromIntegers(S::Load(part)), of_row);
      S::Store(acc, S::Fma(sum, scale[p], S::Zero()));
    }
  }
}

// One strip for a block of rows. Its sums are kept in part [rows][64] until they are whole, and
// added to acc [rows][64] then; but those of integers, which stay in part.
template <class Format>
static void MultiplyStrip(const QuantisedJob& job, const QuantisedStrip& strip, int64_t first_pair,
                          RowBlock block, bool first, uint8_t* panel, float* part, float* acc) {
  using A = typename Format::A;
  using S = typename Format::Simd;
  constexpr int64_t kPairBytes = kMatMulGroupUnits * Format::kUnitBytes;
  const int64_t total = job.rows.leaf_pair_begin[job.rows.leaves];
  const A* packed =
      static_cast<const A*>(job.rows.packed_in) + block.begin * total * Format::kPerPair;
  if constexpr (kFromRegisters<Format>) {
    if (block.tiles <= kFewRowsTiles) {
      return FewRows<Format>(job, strip, first_pair, block, first, packed, acc);
    }
  }
  const QuantisedTarget to = {panel, kPairBytes, Format::kUnitBytes};
  const int64_t ahead = job.rows.tuning.ahead_bytes == kAheadOff ? 0 : kQuantisedAheadBytes;
  for (int64_t begin = 0; begin < strip.pairs; begin += kQuantisedPiecePairs) {
    const int64_t left = strip.pairs - begin;
    const int64_t pairs = left < kQuantisedPiecePairs ? left : kQuantisedPiecePairs;
    const auto tiles = [&](auto sums, float* to_sums) {
      const Piece<decltype(sums)> piece = {pairs, sums, block.tiles, kAheadOff};
      for (int64_t tile = 0; tile < block.tiles; ++tile) {
        const RowTile t = TileOf(block, tile);
        const A* a = packed + (t.begin * total + (first_pair + begin) * t.rows) * Format::kPerPair;
        RunTileRows<Format>(t.rows, panel, a, piece, tile, to_sums + t.begin * kMatMulGroupColumns);
      }
    };
    if constexpr (kOfIntegers<Format>) {
      ExpandIntegers<typename S::Codes>(strip, begin, pairs, to, ahead);
      tiles(KeptSums{begin == 0}, part);
    } else {
      ExpandCodes<typename S::Codes, kMatMulGroupUnits>(job.kind, strip, begin, pairs, 0, to,
                                                        ahead);
      if (left > pairs) {
        tiles(KeptSums{begin == 0}, part);
      } else {
        tiles(ScaledSums{strip.scales, job.scale_type, first, begin == 0 ? 0 : part - acc}, acc);
      }
    }
  }
}

template <class Format>
static void QuantisedGroups(const QuantisedJob& job, int64_t group_begin, int64_t group_end,
                            float* scratch, uint64_t* slices) {
  using S = typename Format::Simd;
  const int64_t row_block = job.rows.tuning.row_block;
  const int64_t stride = row_block * kMatMulGroupColumns;
  auto* panel = reinterpret_cast<uint8_t*>(scratch);
  float* part = scratch + kQuantisedPanelFloats;
  float* acc = part + stride;
  float* levels = acc + stride;
  for (RowBlock block = FirstBlock(job.rows.rows, row_block); block.rows > 0;
       block = NextBlock(block, job.rows.rows, row_block)) {
    const int64_t floats = block.rows * kMatMulGroupColumns;
    for (int64_t g = group_begin; g < group_end; ++g) {
      const uint8_t* group = job.rows.weight + g * job.strip_at[job.rows.leaves];
      for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
        const int64_t first = job.leaf_strip[leaf];
        if (first == job.leaf_strip[leaf + 1]) {
          for (int64_t i = 0; i < floats; i += 16) S::Store(acc + i, S::Zero());
        }
        for (int64_t s = first; s < job.leaf_strip[leaf + 1]; ++s) {
          const QuantisedStrip strip = QuantisedStripAt(job, group, s);
          MultiplyStrip<Format>(job, strip, job.rows.leaf_pair_begin[s], block, s == first, panel,
                                part, acc);
          if constexpr (kOfIntegers<Format>) {
            ScaleIntegers<S>(part, job.row_scales + block.begin, strip.scales, job.scale_type,
                             block.rows, acc);
          }
        }
        if (job.leaves > 1) AddLeaf<S>(leaf, floats, stride, acc, levels);
      }
      StoreGroup<S>(job.rows, g, block, acc);
      CountSlice(slices);
    }
  }
}

}  // namespace tutti::kernels::cpu
