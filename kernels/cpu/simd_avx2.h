// Sixteen f32 lanes as two AVX2 registers. simd_avx512.h has the same names over one AVX-512
// register.
//
// Kernels are templates over such a class and use nothing else, so both instruction sets run the
// same source and, every operation here being exactly rounded lane by lane or a fixed tree over the
// lanes, give the same bits.
//
// To be included only by the kernels_*.cc files, which are compiled for a wider instruction set
// than the baseline. Everything is in an unnamed namespace: the linker cannot hand this code to a
// machine that lacks the instructions.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/codes_avx2.h"
#include "kernels/cpu/inline.h"

namespace tutti::kernels::cpu {
namespace {

struct Avx2 {
  using Codes = Avx2Codes;

  // Panels of 16 columns that a product of `rows` rows holds in registers at once. Of the 16
  // registers, six rows of one panel fill 15. One row takes all four panels: its chains must hide
  // the latency of the additions alone. For two to five rows one panel measured best too, since its
  // chains keep up with memory and its code with the registers.
  static constexpr int Panels(int rows) { return rows == 1 ? 4 : 1; }

  // Up to so many rows a product is waited for more than it is computed with, and reads several
  // groups in turns. Five rows take 1.04 to 1.2 times as long so, six 1.3.
  static constexpr int kTurnRows = 4;

  // Groups of slots in attention: its steps are shorter, so more chains pay, as far as the
  // registers go.
  static constexpr int AttentionPanels(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
  // Independent chains of sixteen lanes that keep both multipliers busy.
  static constexpr int kProbeChains = 6;

  struct F {
    __m256 lo, hi;
  };
  struct F64Sum {
    __m256d part[4];
  };

  TUTTI_INLINE F Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  TUTTI_INLINE F Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  TUTTI_INLINE F Broadcast(const float* p) {
    const __m256 x = _mm256_broadcast_ss(p);
    return {x, x};
  }
  TUTTI_INLINE F Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  TUTTI_INLINE void Store(float* p, F x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
  }
  // Lanes [n, 16) are zero, and their memory is not touched.
  TUTTI_INLINE F LoadFirst(const float* p, int64_t n) {
    return {_mm256_maskload_ps(p, LaneBelow(n, 0)), _mm256_maskload_ps(p + 8, LaneBelow(n, 8))};
  }
  TUTTI_INLINE void StoreFirst(float* p, F x, int64_t n) {
    _mm256_maskstore_ps(p, LaneBelow(n, 0), x.lo);
    _mm256_maskstore_ps(p + 8, LaneBelow(n, 8), x.hi);
  }
  // Lanes [0, n) of `a`, the rest of `b`.
  TUTTI_INLINE F SelectFirst(int64_t n, F a, F b) {
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(LaneBelow(n, 0))),
            _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(LaneBelow(n, 8)))};
  }

  TUTTI_INLINE F Add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  TUTTI_INLINE F Sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  TUTTI_INLINE F Mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  TUTTI_INLINE F Div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  // a * b + c, rounded once.
  TUTTI_INLINE F Fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  // *acc = a * b + *acc, rounded once. Written as an instruction because compilers otherwise like
  // to put the sum where `a` was, and then spill accumulators in the middle of the innermost loop.
  TUTTI_INLINE void MulAdd(F a, F b, F* acc) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(acc->lo) : "x"(a.lo), "x"(b.lo));
    asm("vfmadd231ps %2, %1, %0" : "+x"(acc->hi) : "x"(a.hi), "x"(b.hi));
  }
  // The compiler moves nothing that makes or uses *x across it and other pins.
  TUTTI_INLINE void Pin(F* x) { asm volatile("" : "+x"(x->lo), "+x"(x->hi)); }
  // acc + the products of a word's two integers with those of each word at w: integers of 32 bits.
  TUTTI_INLINE F DotIntegers(F acc, uint32_t a, const uint8_t* w) {
    const __m256i x = _mm256_set1_epi32(static_cast<int>(a));
    const auto* const unit = reinterpret_cast<const __m256i*>(w);
    const __m256i lo = _mm256_madd_epi16(x, _mm256_loadu_si256(unit));
    const __m256i hi = _mm256_madd_epi16(x, _mm256_loadu_si256(unit + 1));
    return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(acc.lo), lo)),
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(acc.hi), hi))};
  }
  TUTTI_INLINE F FromIntegers(F x) {
    return {_mm256_cvtepi32_ps(_mm256_castps_si256(x.lo)),
            _mm256_cvtepi32_ps(_mm256_castps_si256(x.hi))};
  }
  // Of a NaN and a number: `b`, as the instruction has it.
  TUTTI_INLINE F Max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  TUTTI_INLINE F Min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }

  // Nearest integer, halves to even, as a float; |x| < 2^22.
  TUTTI_INLINE F RoundToInt(F x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.lo, kMode), _mm256_round_ps(x.hi, kMode)};
  }
  // 2^x for an integer x in [-126, 127].
  TUTTI_INLINE F Pow2(F x) { return {Pow2Half(x.lo), Pow2Half(x.hi)}; }
  // `x`, but 0 where key < limit.
  TUTTI_INLINE F ZeroWhereLess(F x, F key, F limit) {
    return {_mm256_andnot_ps(_mm256_cmp_ps(key.lo, limit.lo, _CMP_LT_OQ), x.lo),
            _mm256_andnot_ps(_mm256_cmp_ps(key.hi, limit.hi, _CMP_LT_OQ), x.hi)};
  }
  // Bit i is set where lane i compares so.
  TUTTI_INLINE uint32_t EqualMask(F a, F b) { return CompareMask<_CMP_EQ_OQ>(a, b); }
  // Bit i is set where lane i of either is NaN.
  TUTTI_INLINE uint32_t NanMask(F a, F b) { return CompareMask<_CMP_UNORD_Q>(a, b); }

  // Lane i + lane i + 8, then + 4, + 2, + 1.
  TUTTI_INLINE float ReduceAdd(F x) {
    const __m256 eight = _mm256_add_ps(x.lo, x.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  TUTTI_INLINE float First(F x) { return _mm_cvtss_f32(_mm256_castps256_ps128(x.lo)); }
  TUTTI_INLINE float ReduceMax(F x) {
    const __m256 eight = _mm256_max_ps(x.lo, x.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  TUTTI_INLINE F64Sum ZeroF64() {
    const __m256d zero = _mm256_setzero_pd();
    return {{zero, zero, zero, zero}};
  }
  // Adds lane i to f64 sum i.
  TUTTI_INLINE void AddF64(F64Sum* sum, F x) {
    sum->part[0] = _mm256_add_pd(sum->part[0], _mm256_cvtps_pd(_mm256_castps256_ps128(x.lo)));
    sum->part[1] = _mm256_add_pd(sum->part[1], _mm256_cvtps_pd(_mm256_extractf128_ps(x.lo, 1)));
    sum->part[2] = _mm256_add_pd(sum->part[2], _mm256_cvtps_pd(_mm256_castps256_ps128(x.hi)));
    sum->part[3] = _mm256_add_pd(sum->part[3], _mm256_cvtps_pd(_mm256_extractf128_ps(x.hi, 1)));
  }
  TUTTI_INLINE void StoreF64(double* p, const F64Sum& sum) {
    for (int i = 0; i < 4; ++i) _mm256_storeu_pd(p + 4 * i, sum.part[i]);
  }

  // Sixteen words of two bf16 each: the low halves, or the high halves, as f32.
  TUTTI_INLINE F Bf16Low(const uint8_t* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(LoadWords(p), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(LoadWords(p + 32), 16))};
  }
  TUTTI_INLINE F Bf16High(const uint8_t* p) {
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm256_castsi256_ps(_mm256_and_si256(LoadWords(p), mask)),
            _mm256_castsi256_ps(_mm256_and_si256(LoadWords(p + 32), mask))};
  }
  // Sixteen contiguous elements.
  TUTTI_INLINE F LoadBf16(const uint16_t* p) {
    return {WidenBf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            WidenBf16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  TUTTI_INLINE F LoadF16(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  TUTTI_INLINE void StoreBf16(uint16_t* p, F x) {
    const __m256i lo = Bf16Bits(x.lo);
    const __m256i hi = Bf16Bits(x.hi);
    // packus works within 128-bit halves; the permutation puts the quarters in order.
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
  }
  TUTTI_INLINE void StoreF16(uint16_t* p, F x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.lo, kMode));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.hi, kMode));
  }
  // Zeros of the same sign in the place of denormals.
  TUTTI_INLINE F FlushDenormals(F x) { return {FlushHalf(x.lo), FlushHalf(x.hi)}; }
  // To nearest even; NaN stays NaN.
  TUTTI_INLINE F RoundToBf16(F x) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(Bf16Bits(x.lo), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(Bf16Bits(x.hi), 16))};
  }
  TUTTI_INLINE F RoundToF16(F x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_cvtph_ps(_mm256_cvtps_ph(x.lo, kMode)),
            _mm256_cvtph_ps(_mm256_cvtps_ph(x.hi, kMode))};
  }

  TUTTI_INLINE __m256i LoadWords(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }

 private:
  TUTTI_INLINE __m256i LaneBelow(int64_t n, int first_lane) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n) - first_lane), lane);
  }
  TUTTI_INLINE __m256 Pow2Half(__m256 x) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  TUTTI_INLINE __m256 WidenBf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  TUTTI_INLINE __m256 FlushHalf(__m256 x) {
    const __m256i exponent = _mm256_set1_epi32(0x7f800000);
    const __m256i least = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(x), exponent),
                                             _mm256_setzero_si256());
    const __m256i lost = _mm256_and_si256(least, _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_andnot_si256(lost, _mm256_castps_si256(x)));
  }
  // The bf16 bits of each lane in the low half of its word.
  TUTTI_INLINE __m256i Bf16Bits(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet,
                              _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  }
  template <int kPredicate>
  TUTTI_INLINE uint32_t CompareMask(F a, F b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, kPredicate))) |
           static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, kPredicate))) << 8;
  }
};

}  // namespace
}  // namespace tutti::kernels::cpu
