// Sixteen f32 lanes as one AVX-512 register; see simd_avx2.h for the meaning of each operation and
// why the two agree.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/codes_avx512.h"
#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {
namespace {

struct Avx512 {
  using Codes = Avx512Codes;

  // 32 registers: six rows by four panels are 24 accumulators.
  static constexpr int Panels(int) { return 4; }
  static constexpr int AttentionPanels(int) { return 4; }
  // Rows whose products may read several groups in turns: of one tile.
  static constexpr int kTurnRows = 6;

  static constexpr int kProbeChains = 12;

  using F = __m512;
  struct F64Sum {
    __m512d part[2];
  };

  TUTTI_INLINE F Zero() { return _mm512_setzero_ps(); }
  TUTTI_INLINE F Set(float x) { return _mm512_set1_ps(x); }
  TUTTI_INLINE F Broadcast(const float* p) { return _mm512_set1_ps(*p); }
  TUTTI_INLINE F Load(const float* p) { return _mm512_loadu_ps(p); }
  TUTTI_INLINE void Store(float* p, F x) { _mm512_storeu_ps(p, x); }
  TUTTI_INLINE F LoadFirst(const float* p, int64_t n) {
    return _mm512_maskz_loadu_ps(LaneBelow(n), p);
  }
  TUTTI_INLINE void StoreFirst(float* p, F x, int64_t n) {
    _mm512_mask_storeu_ps(p, LaneBelow(n), x);
  }
  TUTTI_INLINE F SelectFirst(int64_t n, F a, F b) {
    return _mm512_mask_blend_ps(LaneBelow(n), b, a);
  }

  TUTTI_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
  TUTTI_INLINE F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  TUTTI_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  TUTTI_INLINE F Div(F a, F b) { return _mm512_div_ps(a, b); }
  TUTTI_INLINE F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  TUTTI_INLINE void MulAdd(F a, F b, F* acc) {
#ifndef TUTTI_AVX512_BY_SIMDE
    asm("vfmadd231ps %2, %1, %0" : "+v"(*acc) : "v"(a), "v"(b));
#else
    *acc = Fma(a, b, *acc);
#endif
  }
#ifndef TUTTI_AVX512_BY_SIMDE
  TUTTI_INLINE void Pin(F* x) { asm volatile("" : "+v"(*x)); }
#else
  TUTTI_INLINE void Pin(F* x) { asm volatile("" : "+m"(*x)); }
#endif
  // acc + the products of a word's two integers with those of each word at w: integers of 32 bits.
  TUTTI_INLINE F DotIntegers(F acc, uint32_t a, const uint8_t* w) {
    const __m512i sum = _mm512_castps_si512(acc);
    const __m512i x = _mm512_set1_epi32(static_cast<int>(a));
#ifdef __AVX512VNNI__
    return _mm512_castsi512_ps(_mm512_dpwssd_epi32(sum, x, _mm512_loadu_si512(w)));
#else
    const __m512i both = _mm512_madd_epi16(x, _mm512_loadu_si512(w));
    return _mm512_castsi512_ps(_mm512_add_epi32(sum, both));
#endif
  }
  TUTTI_INLINE F FromIntegers(F x) { return _mm512_cvtepi32_ps(_mm512_castps_si512(x)); }
  TUTTI_INLINE F Max(F a, F b) { return _mm512_max_ps(a, b); }
  TUTTI_INLINE F Min(F a, F b) { return _mm512_min_ps(a, b); }

  TUTTI_INLINE F RoundToInt(F x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  TUTTI_INLINE F Pow2(F x) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
  }
  TUTTI_INLINE F ZeroWhereLess(F x, F key, F limit) {
    const __mmask16 less = _mm512_cmp_ps_mask(key, limit, _CMP_LT_OQ);
    return _mm512_maskz_mov_ps(static_cast<__mmask16>(~less), x);
  }
  TUTTI_INLINE uint32_t EqualMask(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  // Bit i is set where lane i of either is NaN.
  TUTTI_INLINE uint32_t NanMask(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }

  TUTTI_INLINE float ReduceAdd(F x) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  TUTTI_INLINE float First(F x) { return _mm_cvtss_f32(_mm512_castps512_ps128(x)); }
  TUTTI_INLINE float ReduceMax(F x) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  TUTTI_INLINE F64Sum ZeroF64() { return {{_mm512_setzero_pd(), _mm512_setzero_pd()}}; }
  TUTTI_INLINE void AddF64(F64Sum* sum, F x) {
    sum->part[0] = _mm512_add_pd(sum->part[0], _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    sum->part[1] = _mm512_add_pd(sum->part[1], _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  TUTTI_INLINE void StoreF64(double* p, const F64Sum& sum) {
    _mm512_storeu_pd(p, sum.part[0]);
    _mm512_storeu_pd(p + 8, sum.part[1]);
  }

  TUTTI_INLINE F Bf16Low(const uint8_t* p) { return LowOf(_mm512_loadu_si512(p)); }
  TUTTI_INLINE F Bf16High(const uint8_t* p) { return HighOf(_mm512_loadu_si512(p)); }
  // Of a unit in a register, the even k and the odd ones.
  TUTTI_INLINE F LowOf(__m512i unit) { return _mm512_castsi512_ps(_mm512_slli_epi32(unit, 16)); }
  TUTTI_INLINE F HighOf(__m512i unit) {
    const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return _mm512_castsi512_ps(_mm512_and_si512(unit, mask));
  }
  TUTTI_INLINE F LoadBf16(const uint16_t* p) {
    const __m512i words =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
  }
  TUTTI_INLINE F LoadF16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  TUTTI_INLINE void StoreBf16(uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(Bf16Bits(x)));
  }
  // Of numbers that are zero, NaN or at least the least normal one; the rounded ones.
  TUTTI_INLINE F StoreNormalBf16(uint16_t* p, F x) {
    const __m512i bits = Bf16Bits(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bits));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  }
  TUTTI_INLINE void StoreF16(uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), F16Bits(x));
  }
  TUTTI_INLINE F FlushDenormals(F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    const __mmask16 least = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
    return _mm512_castsi512_ps(_mm512_mask_and_epi32(bits, least, bits, sign));
  }
  TUTTI_INLINE F RoundToBf16(F x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(Bf16Bits(x), 16));
  }
  TUTTI_INLINE F RoundToF16(F x) { return _mm512_cvtph_ps(F16Bits(x)); }

 private:
  // n may exceed 16.
  TUTTI_INLINE __mmask16 LaneBelow(int64_t n) {
    return n >= 16 ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << n) - 1u);
  }
  TUTTI_INLINE __m256i F16Bits(F x) {
    return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  TUTTI_INLINE __m512i Bf16Bits(F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i upper = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
    return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), rounded, quiet);
  }
};

}  // namespace
}  // namespace tutti::kernels::cpu
