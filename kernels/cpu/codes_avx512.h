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

struct Avx512Codes {
  using Table = __m512i;  // bf16, by the lowest five bits of a lane
  using Zeros = __m512i;  // of 16 columns

  template <CodeKind kKind, bool kZeros>
  TUTTI_INLINE Table LoadTable() {
    return _mm512_loadu_si512(TableOf<kKind, kZeros>().bf16);
  }
  template <CodeKind kKind>
  TUTTI_INLINE Zeros LoadZeros(const uint8_t* zeros) {
    const __m512i words =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(zeros)));
    // Codes of 4 bits are looked up in both halves of a word.
    if constexpr (kKind == CodeKind::kInt4) {
      return _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
    }
    return words;
  }
  template <CodeKind kKind>
  TUTTI_INLINE Zeros UsualZeros() {
    return _mm512_set1_epi32(128);
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

  // Units `pair_step` bytes apart: four of codes of 4 bits, two of 8.
  template <CodeKind kKind, bool kZeros>
  TUTTI_INLINE void Line(const uint8_t* line, Table table, Zeros zeros, uint8_t* out,
                         int64_t pair_step) {
    const __m512i words = _mm512_loadu_si512(line);
    if constexpr (kKind == CodeKind::kInt4 || kKind == CodeKind::kE2m1) {
      Nibbles<kZeros>(words, table, zeros, out);
      Nibbles<kZeros>(_mm512_srli_epi16(words, 4), table, zeros, out + pair_step);
      Nibbles<kZeros>(_mm512_srli_epi16(words, 8), table, zeros, out + 2 * pair_step);
      Nibbles<kZeros>(_mm512_srli_epi16(words, 12), table, zeros, out + 3 * pair_step);
    } else if constexpr (kKind == CodeKind::kNvfp4) {
      Scaled(words, table, zeros, out);
      Scaled(_mm512_srli_epi16(words, 4), table, zeros, out + pair_step);
      Scaled(_mm512_srli_epi16(words, 8), table, zeros, out + 2 * pair_step);
      Scaled(_mm512_srli_epi16(words, 12), table, zeros, out + 3 * pair_step);
    } else if constexpr (kKind == CodeKind::kInt8) {
      const __m512i byte = _mm512_set1_epi32(0xff);
      Integers(_mm512_and_si512(words, byte), _mm512_and_si512(_mm512_srli_epi32(words, 16), byte),
               zeros, out);
      Integers(_mm512_and_si512(_mm512_srli_epi32(words, 8), byte), _mm512_srli_epi32(words, 24),
               zeros, out + pair_step);
    } else {
      E4m3(_mm512_and_si512(words, _mm512_set1_epi16(0xff)), table, out);
      E4m3(_mm512_srli_epi16(words, 8), table, out + pair_step);
    }
  }

 private:
  // The lowest four bits of each half of a word.
  template <bool kZeros>
  TUTTI_INLINE void Nibbles(__m512i codes, Table table, Zeros zeros, uint8_t* out) {
    if constexpr (kZeros) {
      codes = _mm512_sub_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(15)), zeros);
    }
    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(codes, table));
  }
  // The same by inner scales: products that are exact in bf16.
  TUTTI_INLINE void Scaled(__m512i codes, Table table, Zeros inner, uint8_t* out) {
    const __m512 scale = _mm512_castsi512_ps(inner);
    const __m512i unit = _mm512_permutexvar_epi16(codes, table);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    const __m512 even = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(unit, 16)), scale);
    const __m512 odd = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(unit, upper)), scale);
    _mm512_storeu_si512(out, _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16),
                                             _mm512_castps_si512(odd)));
  }
  TUTTI_INLINE __m512i AsF32(__m512i codes, Zeros zeros) {
    return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_sub_epi32(codes, zeros)));
  }
  TUTTI_INLINE void Integers(__m512i even, __m512i odd, Zeros zeros, uint8_t* out) {
    const __m512i low = _mm512_srli_epi32(AsF32(even, zeros), 16);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    _mm512_storeu_si512(out, _mm512_or_si512(low, _mm512_and_si512(AsF32(odd, zeros), upper)));
  }
  // Halves of words that are codes. The exponent's bias is another, and where it is 0 the fraction
  // is looked up: the lowest five bits are nothing else then.
  TUTTI_INLINE void E4m3(__m512i codes, Table table, uint8_t* out) {
    const __m512i magnitude = _mm512_and_si512(codes, _mm512_set1_epi16(0x7f));
    const __m512i normal =
        _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), _mm512_set1_epi16(0x3c00));
    const __mmask32 least = _mm512_testn_epi16_mask(codes, _mm512_set1_epi16(0x78));
    const __m512i value =
        _mm512_mask_blend_epi16(least, normal, _mm512_permutexvar_epi16(magnitude, table));
    const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(0x80)), 8);
    _mm512_storeu_si512(out, _mm512_or_si512(value, sign));
  }
};

}  // namespace
}  // namespace tutti::kernels::cpu
