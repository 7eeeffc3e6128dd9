// A line of codes as units of bf16, by AVX-512. codes_avx2.h has the same names.
//
// To be included only by the kernels_*.cc files.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/code_tables.h"
#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {
namespace {

// The values of e4m3 without their sign, as bf16: exact.
struct E4m3Table {
  alignas(64) uint16_t bf16[128];
};
constexpr E4m3Table MakeE4m3Table() {
  E4m3Table table = {};
  for (int i = 0; i < 128; ++i) {
    const uint16_t least =
        i % 8 == 0 ? 0 : static_cast<uint16_t>(Bf16OfEighths(8 * (i % 8)) - (9 << 7));
    table.bf16[i] = i < 8 ? least : static_cast<uint16_t>((i << 4) + 0x3c00);
  }
  return table;
}
constexpr E4m3Table kE4m3Table = MakeE4m3Table();

struct Avx512Codes {
  // Lines may be multiplied from registers, a unit of bf16 at a time (quantised_few.h).
  static constexpr bool kFromRegisters = true;
  using Table = __m512i[4];  // bf16, 32 each, by the lowest bits of a lane: one, or for e4m3 four
  using Zeros = __m512i;     // of 16 columns
  using Words = __m512i;     // a line, and a unit

  TUTTI_INLINE Words LoadWords(const uint8_t* line) { return _mm512_loadu_si512(line); }

  template <CodeKind kKind, bool kZeros>
  TUTTI_INLINE void LoadTable(Table* table) {
    if constexpr (kKind == CodeKind::kE4m3) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) (*table)[i] = _mm512_loadu_si512(kE4m3Table.bf16 + 32 * i);
    } else {
      (*table)[0] = _mm512_loadu_si512(TableOf<kKind, kZeros>().bf16);
    }
  }
  template <CodeKind kKind>
  TUTTI_INLINE Zeros LoadZeros(const uint8_t* zeros) {
    const __m512i words =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros)));
    // Codes of 4 bits are looked up in both halves of a word.
    if constexpr (kKind == CodeKind::kInt4) {
      return _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
    }
    return _mm512_castps_si512(
        _mm512_add_ps(_mm512_cvtepi32_ps(words), _mm512_set1_ps(kIntegerBase)));
  }
  template <CodeKind kKind>
  TUTTI_INLINE Zeros UsualZeros() {
    return _mm512_castps_si512(_mm512_set1_ps(kIntegerBase + 128));
  }

  // A line of codes of 8 bits as units of integers of 16 bits, less 128.
  TUTTI_INLINE void IntegerLine(const uint8_t* line, uint8_t* out, int64_t pair_step) {
    const __m512i words = _mm512_loadu_si512(line);
    const __m512i middle = _mm512_set1_epi16(128);
    const __m512i lower = _mm512_and_si512(words, _mm512_set1_epi16(0xff));
    _mm512_storeu_si512(out, _mm512_sub_epi16(lower, middle));
    _mm512_storeu_si512(out + pair_step, _mm512_sub_epi16(_mm512_srli_epi16(words, 8), middle));
  }

  // Inner scales of 16 columns as f32, in place of zero points: integers of 18 bits times 2^-9.
  TUTTI_INLINE Zeros LoadInner(const uint8_t* codes) {
    const __m512i words =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i exponent = _mm512_srli_epi32(words, 3);
    const __m512i fraction = _mm512_and_si512(words, _mm512_set1_epi32(7));
    const __m512i digits = _mm512_mask_or_epi32(
        fraction, _mm512_test_epi32_mask(exponent, exponent), fraction, _mm512_set1_epi32(8));
    const __m512i shift = _mm512_sub_epi32(_mm512_max_epi32(exponent, one), one);
    return _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sllv_epi32(digits, shift)),
                                             _mm512_set1_ps(0x1p-9f)));
  }

  // The unit of pair kPair of a line: of four where codes have 4 bits, of two where 8.
  template <CodeKind kKind, bool kZeros, int kPair>
  TUTTI_INLINE __m512i Unit(__m512i words, const Table& table, Zeros zeros) {
    if constexpr (kKind == CodeKind::kInt8) {
      return Integers<kPair>(words, zeros);
    } else if constexpr (kKind == CodeKind::kE4m3) {
      return E4m3<kPair>(words, table);
    } else {
      __m512i codes = kPair == 0 ? words : _mm512_srli_epi16(words, 4 * kPair);
      if constexpr (kZeros) {
        codes = _mm512_sub_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(15)), zeros);
      }
      const __m512i unit = _mm512_permutexvar_epi16(codes, table[0]);
      return kKind == CodeKind::kNvfp4 ? Scaled(unit, zeros) : unit;
    }
  }

  // Units `pair_step` bytes apart.
  template <CodeKind kKind, bool kZeros>
  TUTTI_INLINE void Line(const uint8_t* line, const Table& table, Zeros zeros, uint8_t* out,
                         int64_t pair_step) {
    const __m512i words = _mm512_loadu_si512(line);
    _mm512_storeu_si512(out, Unit<kKind, kZeros, 0>(words, table, zeros));
    _mm512_storeu_si512(out + pair_step, Unit<kKind, kZeros, 1>(words, table, zeros));
    if constexpr (kKind != CodeKind::kInt8 && kKind != CodeKind::kE4m3) {
      _mm512_storeu_si512(out + 2 * pair_step, Unit<kKind, kZeros, 2>(words, table, zeros));
      _mm512_storeu_si512(out + 3 * pair_step, Unit<kKind, kZeros, 3>(words, table, zeros));
    }
  }

 private:
  // Codes of 8 bits are the upper digits of floats from this one on.
  static constexpr float kIntegerBase = 256;

  // Products by inner scales, which are exact in bf16.
  TUTTI_INLINE __m512i Scaled(__m512i unit, Zeros inner) {
    const __m512 scale = _mm512_castsi512_ps(inner);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    const __m512 even = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(unit, 16)), scale);
    const __m512 odd = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(unit, upper)), scale);
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16),
                           _mm512_castps_si512(odd));
  }
  // kIntegerBase + code, less kIntegerBase + zero: of bits 15 to 22 of `words`.
  TUTTI_INLINE __m512i AsF32(__m512i words, Zeros zeros) {
    const __m512i code = _mm512_and_si512(words, _mm512_set1_epi32(0xff << 15));
    const __m512i sum = _mm512_or_si512(code, _mm512_castps_si512(_mm512_set1_ps(kIntegerBase)));
    return _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(sum), _mm512_castsi512_ps(zeros)));
  }
  // Both have eight digits at most: the lower half of a float is zero.
  template <int kPair>
  TUTTI_INLINE __m512i Integers(__m512i words, Zeros zeros) {
    const __m512i even = AsF32(_mm512_slli_epi32(words, 15 - 8 * kPair), zeros);
    const __m512i odd = AsF32(_mm512_srli_epi32(words, 1 + 8 * kPair), zeros);
    return _mm512_or_si512(_mm512_srli_epi32(even, 16), odd);
  }
  // Of each half of a word the lower or the upper byte.
  template <int kPair>
  TUTTI_INLINE __m512i E4m3(__m512i words, const Table& table) {
    const __m512i codes = kPair == 0 ? words : _mm512_srli_epi16(words, 8);
    const __mmask32 large = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
    const __m512i value =
        _mm512_mask_blend_epi16(large, _mm512_permutex2var_epi16(table[0], codes, table[1]),
                                _mm512_permutex2var_epi16(table[2], codes, table[3]));
    const __m512i sign = _mm512_set1_epi16(static_cast<int16_t>(0x8000));
    const __m512i shifted = kPair == 0 ? _mm512_slli_epi16(words, 8) : words;
    return _mm512_or_si512(value, _mm512_and_si512(shifted, sign));
  }
};

}  // namespace
}  // namespace tutti::kernels::cpu
