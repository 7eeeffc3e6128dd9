// A line of codes as units of bf16, by AVX2. codes_avx512.h has the same names.
//
// To be included only by the kernels_*.cc files.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/code_tables.h"
#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {
namespace {

struct Avx2Codes {
  static constexpr bool kFromRegisters = false;
  // The two bytes of a bf16, by the lowest four bits of a byte.
  struct Table {
    __m256i low, high;
  };
  struct Zeros {
    __m256i half[2];  // of 8 columns
  };

  template <CodeKind kKind, bool kZeros>
  TUTTI_INLINE void LoadTable(Table* table) {
    const CodeTable& from = TableOf<kKind, kZeros>();
    *table = {Bytes(from.low), Bytes(from.high)};
  }
  template <CodeKind kKind>
  TUTTI_INLINE Zeros LoadZeros(const uint8_t* zeros) {
    Zeros wide;
    for (int half = 0; half < 2; ++half) {
      __m256i words =
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(zeros + 8 * half)));
      // Codes of 4 bits are looked up in all bytes of a word.
      if constexpr (kKind == CodeKind::kInt4) {
        words = _mm256_or_si256(words, _mm256_slli_epi32(words, 16));
        words = _mm256_or_si256(words, _mm256_slli_epi32(words, 8));
      }
      wide.half[half] = words;
    }
    return wide;
  }
  template <CodeKind kKind>
  TUTTI_INLINE Zeros UsualZeros() {
    return {{_mm256_set1_epi32(128), _mm256_set1_epi32(128)}};
  }

  // A line of codes of 8 bits as units of integers of 16 bits, less 128.
  TUTTI_INLINE void IntegerLine(const uint8_t* line, uint8_t* out, int64_t pair_step) {
    const __m256i middle = _mm256_set1_epi16(128);
    for (int half = 0; half < 2; ++half, line += 32, out += 32) {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line));
      const __m256i lower = _mm256_and_si256(words, _mm256_set1_epi16(0xff));
      Put(out, _mm256_sub_epi16(lower, middle));
      Put(out + pair_step, _mm256_sub_epi16(_mm256_srli_epi16(words, 8), middle));
    }
  }

  // Inner scales as f32, in place of zero points: integers of 18 bits times 2^-9.
  TUTTI_INLINE Zeros LoadInner(const uint8_t* codes) {
    Zeros scales;
    for (int half = 0; half < 2; ++half) {
      const __m256i words =
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + 8 * half)));
      const __m256i one = _mm256_set1_epi32(1);
      const __m256i exponent = _mm256_srli_epi32(words, 3);
      const __m256i least = _mm256_min_epi32(exponent, one);
      const __m256i digits = _mm256_or_si256(_mm256_and_si256(words, _mm256_set1_epi32(7)),
                                             _mm256_slli_epi32(least, 3));
      const __m256i shift = _mm256_sub_epi32(_mm256_max_epi32(exponent, one), one);
      scales.half[half] = _mm256_castps_si256(_mm256_mul_ps(
          _mm256_cvtepi32_ps(_mm256_sllv_epi32(digits, shift)), _mm256_set1_ps(0x1p-9f)));
    }
    return scales;
  }

  template <CodeKind kKind, bool kZeros>
  TUTTI_INLINE void Line(const uint8_t* line, const Table& table, Zeros zeros, uint8_t* out,
                         int64_t pair_step) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, line += 32, out += 32) {
      const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line));
      if constexpr (kKind == CodeKind::kInt4 || kKind == CodeKind::kE2m1) {
        Nibbles<kZeros>(words, table, zeros.half[half], out, pair_step);
      } else if constexpr (kKind == CodeKind::kNvfp4) {
        Nibbles<false>(words, table, zeros.half[half], out, pair_step);
        for (int pair = 0; pair < 4; ++pair) Scale(zeros.half[half], out + pair * pair_step);
      } else if constexpr (kKind == CodeKind::kInt8) {
        const __m256i byte = _mm256_set1_epi32(0xff);
        Integers(_mm256_and_si256(words, byte),
                 _mm256_and_si256(_mm256_srli_epi32(words, 16), byte), zeros.half[half], out);
        Integers(_mm256_and_si256(_mm256_srli_epi32(words, 8), byte), _mm256_srli_epi32(words, 24),
                 zeros.half[half], out + pair_step);
      } else {
        E4m3(_mm256_and_si256(words, _mm256_set1_epi16(0xff)), table, out);
        E4m3(_mm256_srli_epi16(words, 8), table, out + pair_step);
      }
    }
  }

 private:
  TUTTI_INLINE __m256i Bytes(const uint8_t* sixteen) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sixteen)));
  }
  TUTTI_INLINE void Put(uint8_t* out, __m256i unit) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), unit);
  }
  // Of every byte of `codes` the two bytes of its bf16.
  template <bool kZeros>
  TUTTI_INLINE Table LookUp(__m256i codes, Table table, __m256i zeros) {
    if constexpr (kZeros) {
      const __m256i less = _mm256_sub_epi8(codes, zeros);
      const __m256i magnitude = _mm256_abs_epi8(less);
      const __m256i sign = _mm256_and_si256(less, _mm256_set1_epi8(static_cast<char>(0x80)));
      return {_mm256_shuffle_epi8(table.low, magnitude),
              _mm256_or_si256(_mm256_shuffle_epi8(table.high, magnitude), sign)};
    }
    return {_mm256_shuffle_epi8(table.low, codes), _mm256_shuffle_epi8(table.high, codes)};
  }
  // The units of the lower and of the upper bytes of halves of words.
  TUTTI_INLINE void PutBoth(Table bytes, uint8_t* of_lower, uint8_t* of_upper) {
    const __m256i lower = _mm256_set1_epi16(0xff);
    Put(of_lower,
        _mm256_or_si256(_mm256_and_si256(bytes.low, lower), _mm256_slli_epi16(bytes.high, 8)));
    Put(of_upper,
        _mm256_or_si256(_mm256_srli_epi16(bytes.low, 8), _mm256_andnot_si256(lower, bytes.high)));
  }
  template <bool kZeros>
  TUTTI_INLINE void Nibbles(__m256i words, Table table, __m256i zeros, uint8_t* out,
                            int64_t pair_step) {
    const __m256i nibble = _mm256_set1_epi8(15);
    const Table even = LookUp<kZeros>(_mm256_and_si256(words, nibble), table, zeros);
    PutBoth(even, out, out + 2 * pair_step);
    const Table odd =
        LookUp<kZeros>(_mm256_and_si256(_mm256_srli_epi16(words, 4), nibble), table, zeros);
    PutBoth(odd, out + pair_step, out + 3 * pair_step);
  }
  // A unit by inner scales: products that are exact in bf16.
  TUTTI_INLINE void Scale(__m256i inner, uint8_t* at) {
    const __m256 scale = _mm256_castsi256_ps(inner);
    const __m256i unit = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    const __m256 even = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(unit, 16)), scale);
    const __m256 odd = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_and_si256(unit, upper)), scale);
    Put(at, _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(even), 16),
                            _mm256_castps_si256(odd)));
  }
  TUTTI_INLINE __m256i AsF32(__m256i codes, __m256i zeros) {
    return _mm256_castps_si256(_mm256_cvtepi32_ps(_mm256_sub_epi32(codes, zeros)));
  }
  TUTTI_INLINE void Integers(__m256i even, __m256i odd, __m256i zeros, uint8_t* out) {
    Put(out,
        _mm256_blend_epi16(_mm256_srli_epi32(AsF32(even, zeros), 16), AsF32(odd, zeros), 0xaa));
  }
  TUTTI_INLINE void E4m3(__m256i codes, Table table, uint8_t* out) {
    const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    const __m256i normal =
        _mm256_add_epi16(_mm256_slli_epi16(magnitude, 4), _mm256_set1_epi16(0x3c00));
    const __m256i fraction = _mm256_and_si256(codes, _mm256_set1_epi16(7));
    const __m256i small =
        _mm256_or_si256(_mm256_shuffle_epi8(table.low, fraction),
                        _mm256_slli_epi16(_mm256_shuffle_epi8(table.high, fraction), 8));
    const __m256i least = _mm256_cmpeq_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x78)),
                                             _mm256_setzero_si256());
    const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x80)), 8);
    Put(out, _mm256_or_si256(_mm256_blendv_epi8(normal, small, least), sign));
  }
};

}  // namespace
}  // namespace tutti::kernels::cpu
