// Products of few rows over codes: a line becomes units of bf16 in registers, and is multiplied
// there, for up to two tiles of rows. The way through the first cache (quantised_kernels.h) would
// wait for its stores.
#pragma once

#include <cstdint>

#include "kernels/cpu/formats.h"
#include "kernels/cpu/quantised_strip.h"
#include "kernels/cpu/tiles.h"
#include "kernels/limits.h"

namespace tutti::kernels::cpu {

inline constexpr int64_t kFewRowsTiles = 2;

// Whether a format has StepUnits, and its processor Codes::Unit.
template <class Format>
inline constexpr bool kFromRegisters =
    Format::Simd::Codes::kFromRegisters&& Format::kBlockPairs == 0 && !kOfIntegers<Format>;

// A pair of k of rows that are packed as two tiles, of R0 and R1 rows.
template <class Format, int R0, int R1>
struct TwoTiles {
  using A = typename Format::A;
  const A* first;
  const A* second;

  [[gnu::always_inline]] const A* At(int row) const {
    return row < R0 ? first + row * Format::kPerPair : second + (row - R0) * Format::kPerPair;
  }
  [[gnu::always_inline]] void Next() {
    first += R0 * Format::kPerPair;
    second += R1 * Format::kPerPair;
  }
};

// Pair kPair of the lines of P neighbouring units.
template <class Format, CodeKind kKind, bool kZeros, int kPair, int R, int P, class Words,
          class Table, class Zeros, class Rows>
TUTTI_INLINE void FewRowsPair(typename Format::F (&sum)[R][P], const Words (&words)[P],
                              const Table& table, const Zeros (&zeros)[P], Rows* rows) {
  Words unit[P];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    unit[p] = Format::Simd::Codes::template Unit<kKind, kZeros, kPair>(words[p], table, zeros[p]);
  }
  Format::StepUnits(sum, unit, *rows);
  rows->Next();
}

// The sums of P units of a strip, from `codes` on, of which `beside` are the zero points or inner
// scales; to acc [R0 + R1][64].
template <class Format, CodeKind kKind, bool kZeros, int R0, int R1, int P>
[[gnu::noinline]] static void FewRowsUnits(const uint8_t* codes, const uint8_t* beside,
                                           int64_t pairs, TwoTiles<Format, R0, R1> rows,
                                           ScaledSums sums, float* acc) {
  using S = typename Format::Simd;
  using Codes = typename S::Codes;
  constexpr int R = R0 + R1;
  typename Codes::Table table;
  Codes::template LoadTable<kKind, kZeros>(&table);
  typename Codes::Zeros zeros[P];
  typename S::F sum[R][P];
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    if constexpr (kZeros) {
      zeros[p] = Codes::template LoadZeros<kKind>(beside + 16 * p);
    } else {
      zeros[p] = Codes::template UsualZeros<kKind>();
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) sum[r][p] = S::Zero();
  }
  uint32_t state = 0;
  Format::Chains::Begin(sum, &state);
  const int64_t lines = pairs / QuantisedLinePairs(kKind);
  for (int64_t line = 0; line < lines; ++line) {
    typename Codes::Words words[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
      if constexpr (kKind == CodeKind::kNvfp4) {
        if (line % kInnerLines == 0) zeros[p] = Codes::LoadInner(beside + 16 * p);
      }
      words[p] = Codes::LoadWords(codes + p * kQuantisedLineBytes);
      __builtin_prefetch(codes + p * kQuantisedLineBytes + kFewRowsAheadBytes, 0, 3);
    }
    FewRowsPair<Format, kKind, kZeros, 0>(sum, words, table, zeros, &rows);
    FewRowsPair<Format, kKind, kZeros, 1>(sum, words, table, zeros, &rows);
    if constexpr (kKind != CodeKind::kInt8 && kKind != CodeKind::kE4m3) {
      FewRowsPair<Format, kKind, kZeros, 2>(sum, words, table, zeros, &rows);
      FewRowsPair<Format, kKind, kZeros, 3>(sum, words, table, zeros, &rows);
    }
    codes += kMatMulGroupUnits * kQuantisedLineBytes;
    if constexpr (kKind == CodeKind::kNvfp4) {
      if (line % kInnerLines == kInnerLines - 1) beside += kMatMulGroupColumns;
    }
  }
  Format::Chains::End(sum, state);
  sums.template End<S>(sum, acc);
}

template <class Format, CodeKind kKind, bool kZeros, int R0, int R1>
static void FewRowsStrip(const QuantisedStrip& strip, TwoTiles<Format, R0, R1> rows,
                         ScaledSums sums, float* acc) {
  constexpr int P = R0 + R1 <= 4 ? 4 : 2;  // 24 accumulators at most
  const uint8_t* const beside = kZeros ? strip.zeros : strip.inner;
  for (int unit = 0; unit < kMatMulGroupUnits; unit += P) {
    FewRowsUnits<Format, kKind, kZeros, R0, R1, P>(
        strip.codes + unit * kQuantisedLineBytes, beside == nullptr ? nullptr : beside + 16 * unit,
        strip.pairs, rows, sums.From(unit), acc + 16 * unit);
  }
}

template <class Format, int R0, int R1>
static void FewRowsOfKind(CodeKind kind, const QuantisedStrip& strip, TwoTiles<Format, R0, R1> rows,
                          ScaledSums sums, float* acc) {
  const bool zeros = strip.zeros != nullptr;
  switch (kind) {
    case CodeKind::kInt4:
      if (zeros) {
        return FewRowsStrip<Format, CodeKind::kInt4, true>(strip, rows, sums, acc);
      }
      return FewRowsStrip<Format, CodeKind::kInt4, false>(strip, rows, sums, acc);
    case CodeKind::kInt8:
      if (zeros) {
        return FewRowsStrip<Format, CodeKind::kInt8, true>(strip, rows, sums, acc);
      }
      return FewRowsStrip<Format, CodeKind::kInt8, false>(strip, rows, sums, acc);
    case CodeKind::kE2m1:
      return FewRowsStrip<Format, CodeKind::kE2m1, false>(strip, rows, sums, acc);
    case CodeKind::kE4m3:
      return FewRowsStrip<Format, CodeKind::kE4m3, false>(strip, rows, sums, acc);
    case CodeKind::kNvfp4:
      return FewRowsStrip<Format, CodeKind::kNvfp4, false>(strip, rows, sums, acc);
  }
}

// One strip for a block of one or two tiles, whose packed rows are at `packed`, from pair
// `first_pair` on: added to acc [rows][64], to +0 where it is the first of its leaf.
template <class Format>
static void FewRows(const QuantisedJob& job, const QuantisedStrip& strip, int64_t first_pair,
                    RowBlock block, bool first, const typename Format::A* packed, float* acc) {
  const int64_t total = job.rows.leaf_pair_begin[job.rows.leaves];
  const RowTile tiles[2] = {TileOf(block, 0),
                            block.tiles == 2 ? TileOf(block, 1) : RowTile{block.rows, 0}};
  const auto at = [&](const RowTile& t) {
    return packed + (t.begin * total + first_pair * t.rows) * Format::kPerPair;
  };
  const ScaledSums sums = {strip.scales, job.scale_type, first, 0};
  const auto run = [&]<int R0, int R1>() {
    FewRowsOfKind<Format, R0, R1>(job.kind, strip, {at(tiles[0]), at(tiles[1])}, sums, acc);
  };
  static_assert(kTileRows == 6);
  switch (block.rows) {
    case 1:
      return run.template operator()<1, 0>();
    case 2:
      return run.template operator()<2, 0>();
    case 3:
      return run.template operator()<3, 0>();
    case 4:
      return run.template operator()<4, 0>();
    case 5:
      return run.template operator()<5, 0>();
    case 6:
      return run.template operator()<6, 0>();
    case 7:
      return run.template operator()<4, 3>();
    case 8:
      return run.template operator()<4, 4>();
    case 9:
      return run.template operator()<5, 4>();
    case 10:
      return run.template operator()<5, 5>();
    case 11:
      return run.template operator()<6, 5>();
    default:
      return run.template operator()<6, 6>();
  }
}

}  // namespace tutti::kernels::cpu
