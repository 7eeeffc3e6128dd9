// Products of integers in AMX's tiles: the sums of QuantisedGroups over IntegerFormat, which are
// exact. A line of codes is a row of a tile of weights, so nothing is made of them on the way; they
// lack their sign, which the sum of a row's integers makes up for.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/amx_matmul.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/quantised_kernels.h"

namespace tutti::kernels::cpu {
namespace {

inline constexpr int64_t kAmxIntegerPairs = 32;  // of a product of tiles
inline constexpr int64_t kAmxIntegerBytes = kMatMulGroupUnits * kAmxTileBytes;  // of a group
inline constexpr int64_t kAmxIntegerStep = kMatMulGroupUnits * kQuantisedLineBytes;

// Adds the products of a tile of integers with a sign and one of such without.
template <int kSum, int kRows, int kWeights>
TUTTI_INLINE void AmxMultiplyIntegers() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
}

// One tile of rows by 64 inputs of a group; what lies `ahead` bytes on is fetched meanwhile.
TUTTI_INLINE void AmxIntegerBlock(const uint8_t* in, const uint8_t* lines, int64_t ahead) {
  for (int64_t at = 0; ahead > 0 && at < kAmxIntegerBytes; at += 64) {
    __builtin_prefetch(lines + ahead + at, 0, 3);
  }
  AmxLoad<4>(in, kAmxRowBytes);
  AmxLoad<5>(lines, kAmxIntegerStep);
  AmxMultiplyIntegers<0, 4, 5>();
  AmxLoad<6>(lines + kQuantisedLineBytes, kAmxIntegerStep);
  AmxMultiplyIntegers<1, 4, 6>();
  AmxLoad<7>(lines + 2 * kQuantisedLineBytes, kAmxIntegerStep);
  AmxMultiplyIntegers<2, 4, 7>();
  AmxLoad<5>(lines + 3 * kQuantisedLineBytes, kAmxIntegerStep);
  AmxMultiplyIntegers<3, 4, 5>();
}

TUTTI_INLINE int64_t AmxIntegerBlocks(int64_t pairs) {
  return (pairs + kAmxIntegerPairs - 1) / kAmxIntegerPairs;
}

// The sums of one strip for a tile of rows, to part [rows][64].
static inline void AmxIntegerStrip(const QuantisedStrip& strip, const uint8_t* in, int64_t rows,
                                   int64_t ahead, float* part) {
  constexpr int64_t kStep = kMatMulGroupColumns * static_cast<int64_t>(sizeof(float));
  AmxZero<0>(), AmxZero<1>(), AmxZero<2>(), AmxZero<3>();
  const uint8_t* lines = strip.codes;
  for (int64_t pairs = strip.pairs; pairs > 0; pairs -= kAmxIntegerPairs) {
    if (pairs >= kAmxIntegerPairs) {
      AmxIntegerBlock(in, lines, ahead);
    } else {
      // Whole strips are of 32 inputs: half a tile is left.
      alignas(64) uint8_t half[kAmxIntegerBytes] = {};
      std::memcpy(half, lines, kAmxIntegerBytes / 2);
      AmxIntegerBlock(in, half, 0);
    }
    in += rows * kAmxRowBytes;
    lines += kAmxIntegerBytes;
  }
  AmxStore<0>(part, kStep), AmxStore<1>(part + 16, kStep);
  AmxStore<2>(part + 32, kStep), AmxStore<3>(part + 48, kStep);
}

// part -= 128 * the row's sum: the codes' middle.
TUTTI_INLINE void AmxTakeMiddle(const int32_t* row_sums, int64_t rows, float* part) {
  for (int64_t r = 0; r < rows; ++r) {
    const __m512i middle = _mm512_set1_epi32(128 * row_sums[r]);
    for (int64_t p = 0; p < kMatMulGroupUnits; ++p, part += 16) {
      _mm512_storeu_si512(part, _mm512_sub_epi32(_mm512_loadu_si512(part), middle));
    }
  }
}

template <class S>
static void AmxIntegerGroups(const QuantisedJob& job, int64_t group_begin, int64_t group_end,
                             float* scratch, uint64_t* slices) {
  constexpr int64_t kFloats = kAmxRows * kMatMulGroupColumns;
  float* const part = scratch;
  float* const acc = part + kFloats;
  float* const levels = acc + kFloats;
  const int64_t rows = job.rows.rows;
  const int64_t ahead = job.rows.tuning.ahead_bytes == kAheadOff ? 0 : kQuantisedAheadBytes;
  int64_t blocks = 0;
  for (int64_t s = 0; s < job.rows.leaves; ++s) {
    blocks += AmxIntegerBlocks(job.rows.leaf_pair_begin[s + 1] - job.rows.leaf_pair_begin[s]);
  }
  AmxShape shape;
  for (int64_t g = group_begin; g < group_end; ++g) {
    const uint8_t* codes = job.rows.weight + g * job.strip_at[job.rows.leaves];
    for (int64_t row = 0; row < rows; row += kAmxRows) {
      const int64_t count = rows - row < kAmxRows ? rows - row : kAmxRows;
      shape.Take(count, 0);
      const auto* in =
          static_cast<const uint8_t*>(job.rows.packed_in) + row * blocks * kAmxRowBytes;
      for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
        const int64_t s = job.leaf_strip[leaf];
        if (s == job.leaf_strip[leaf + 1]) {
          for (int64_t i = 0; i < count * kMatMulGroupColumns; i += 16)
            S::Store(acc + i, S::Zero());
        } else {
          const QuantisedStrip strip = QuantisedStripAt(job, codes, s);
          AmxIntegerStrip(strip, in, count, row == 0 ? ahead : 0, part);
          AmxTakeMiddle(job.row_sums + s * rows + row, count, part);
          ScaleIntegers<S>(part, job.row_scales + row, strip.scales, job.scale_type, count, acc);
          in += AmxIntegerBlocks(strip.pairs) * count * kAmxRowBytes;
        }
        if (job.leaves > 1) AddLeaf<S>(leaf, count * kMatMulGroupColumns, kFloats, acc, levels);
      }
      StoreGroup<S>(job.rows, g, {row, count, 1}, acc);
    }
    CountSlice(slices);
  }
  AmxRelease();
}

}  // namespace
}  // namespace tutti::kernels::cpu
