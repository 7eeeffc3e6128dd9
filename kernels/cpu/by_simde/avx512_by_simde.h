// The AVX-512 intrinsics that simd_avx512.h uses, computed without AVX-512, so that tests execute
// the AVX-512 kernels on machines that lack it. Included before everything else (-include) when
// those kernels are compiled for kernels_simde_*_test; never part of a program.
//
// Nearly all come from SIMDe, whose authors wrote and tested them against real processors. Those
// that its version in Debian 12 lacks are here, from Intel's Intrinsics Guide.
#pragma once

#include <immintrin.h>
#include <simde/x86/avx512.h>

#include <cstdint>
#include <cstring>

#define __m512 simde__m512
#define __m512d simde__m512d
#define __m512i simde__m512i
#define __m512bh simde__m512bh

namespace tutti::kernels::cpu::by_simde {

template <class To, class From>
inline To Bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

struct Floats {
  float lane[16];
};
struct Words {
  int32_t lane[16];
};

// Lane by lane; lanes that are not asked for are not read or written.
inline simde__m512 MaskzLoad(uint16_t mask, const float* from) {
  Floats x = {};
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) x.lane[i] = from[i];
  }
  return Bits<simde__m512>(x);
}
inline void MaskStore(float* to, uint16_t mask, simde__m512 from) {
  const auto x = Bits<Floats>(from);
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) to[i] = x.lane[i];
  }
}

inline __m256 Half(simde__m512 x, int which) {
  const auto lanes = Bits<Floats>(x);
  return _mm256_loadu_ps(lanes.lane + 8 * which);
}
inline simde__m512 Join(__m256 low, __m256 high) {
  Floats lanes;
  _mm256_storeu_ps(lanes.lane, low);
  _mm256_storeu_ps(lanes.lane + 8, high);
  return Bits<simde__m512>(lanes);
}
inline simde__m512i Join(__m256i low, __m256i high) {
  return Bits<simde__m512i>(Join(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)));
}

inline simde__m512d WidenToF64(__m256 x) {
  double lanes[8];
  _mm256_storeu_pd(lanes, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
  _mm256_storeu_pd(lanes + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
  return simde_mm512_loadu_pd(lanes);
}
inline simde__m512i ToInt32(simde__m512 x) {
  return Join(_mm256_cvtps_epi32(Half(x, 0)), _mm256_cvtps_epi32(Half(x, 1)));
}
inline simde__m512i WidenUint16(__m256i x) {
  return Join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
              _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1)));
}
inline __m256i NarrowToInt16(simde__m512i x) {
  const auto words = Bits<Words>(x);
  int16_t narrow[16];
  for (int i = 0; i < 16; ++i) narrow[i] = static_cast<int16_t>(words.lane[i]);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(narrow));
}
inline simde__m512 WordsToF32(simde__m512i x) {
  const auto words = Bits<Words>(x);
  Floats lanes;
  for (int i = 0; i < 16; ++i) lanes.lane[i] = static_cast<float>(words.lane[i]);
  return Bits<simde__m512>(lanes);
}
inline simde__m512i WidenUint8(__m128i x) {
  return Join(_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
struct Halves {
  uint16_t lane[32];
};
inline uint32_t NoneOfHalves(simde__m512i a, simde__m512i b) {
  const auto x = Bits<Halves>(a), y = Bits<Halves>(b);
  uint32_t mask = 0;
  for (int i = 0; i < 32; ++i) mask |= static_cast<uint32_t>((x.lane[i] & y.lane[i]) == 0) << i;
  return mask;
}
inline simde__m512 F16ToF32(__m256i x) {
  return Join(_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
              _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1)));
}
template <int kRounding>
inline __m256i F32ToF16(simde__m512 x) {
  return _mm256_set_m128i(_mm256_cvtps_ph(Half(x, 1), kRounding & 7),
                          _mm256_cvtps_ph(Half(x, 0), kRounding & 7));
}

// VDPBF16PS: of each pair first the odd product, then the even one, each fused with its addition;
// denormals are zeros, as operands and as results. SIMDe adds both products first, and rounds them
// on the way. Volatile: no operation may leave the reach of the MXCSR.
inline __m256 DotOfHalf(__m256 sum, __m256i a, __m256i b) {
  const __m256i odd = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
  const auto multiply = [&sum](__m256i x, __m256i y) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
  };
  multiply(_mm256_and_si256(a, odd), _mm256_and_si256(b, odd));
  multiply(_mm256_slli_epi32(a, 16), _mm256_slli_epi32(b, 16));
  return sum;
}
inline simde__m512 Dot(simde__m512 sum, simde__m512bh a, simde__m512bh b) {
  const auto x = Bits<simde__m512>(a), y = Bits<simde__m512>(b);
  const unsigned before = _mm_getcsr();
  const unsigned flushing = 0x9fc0;
  asm volatile("ldmxcsr %0" : : "m"(flushing));
  const __m256 low =
      DotOfHalf(Half(sum, 0), _mm256_castps_si256(Half(x, 0)), _mm256_castps_si256(Half(y, 0)));
  const __m256 high =
      DotOfHalf(Half(sum, 1), _mm256_castps_si256(Half(x, 1)), _mm256_castps_si256(Half(y, 1)));
  asm volatile("ldmxcsr %0" : : "m"(before));
  return Join(low, high);
}

}  // namespace tutti::kernels::cpu::by_simde

#define _mm512_dpbf16_ps ::tutti::kernels::cpu::by_simde::Dot
#define _mm512_maskz_loadu_ps ::tutti::kernels::cpu::by_simde::MaskzLoad
#define _mm512_mask_storeu_ps ::tutti::kernels::cpu::by_simde::MaskStore
#define _mm512_extractf32x8_ps ::tutti::kernels::cpu::by_simde::Half
#define _mm512_cvtps_pd ::tutti::kernels::cpu::by_simde::WidenToF64
#define _mm512_cvtps_epi32 ::tutti::kernels::cpu::by_simde::ToInt32
#define _mm512_cvtepi32_ps ::tutti::kernels::cpu::by_simde::WordsToF32
#define _mm512_cvtepu8_epi32 ::tutti::kernels::cpu::by_simde::WidenUint8
#define _mm512_testn_epi16_mask ::tutti::kernels::cpu::by_simde::NoneOfHalves
#define _mm512_cvtepu16_epi32 ::tutti::kernels::cpu::by_simde::WidenUint16
#define _mm512_cvtepi32_epi16 ::tutti::kernels::cpu::by_simde::NarrowToInt16
#define _mm512_cvtph_ps ::tutti::kernels::cpu::by_simde::F16ToF32
#define _mm512_cvtps_ph(x, rounding) ::tutti::kernels::cpu::by_simde::F32ToF16<rounding>(x)

#define _mm512_add_epi16 simde_mm512_add_epi16
#define _mm512_mask_blend_epi16 simde_mm512_mask_blend_epi16
#define _mm512_permutexvar_epi16 simde_mm512_permutexvar_epi16
#define _mm512_permutex2var_epi16 simde_mm512_permutex2var_epi16
#define _mm512_set1_epi16 simde_mm512_set1_epi16
#define _mm512_slli_epi16 simde_mm512_slli_epi16
#define _mm512_srli_epi16 simde_mm512_srli_epi16
#define _mm512_sub_epi16 simde_mm512_sub_epi16
#define _mm512_sub_epi32 simde_mm512_sub_epi32
#define _mm512_add_epi32 simde_mm512_add_epi32
#define _mm512_add_pd simde_mm512_add_pd
#define _mm512_add_ps simde_mm512_add_ps
#define _mm512_and_si512 simde_mm512_and_si512
#define _mm512_castps512_ps128 simde_mm512_castps512_ps128
#define _mm512_castps512_ps256 simde_mm512_castps512_ps256
#define _mm512_castps_si512 simde_mm512_castps_si512
#define _mm512_castsi512_ps simde_mm512_castsi512_ps
#define _mm512_cmp_ps_mask simde_mm512_cmp_ps_mask
#define _mm512_div_ps simde_mm512_div_ps
#define _mm512_fmadd_ps simde_mm512_fmadd_ps
#define _mm512_loadu_ps simde_mm512_loadu_ps
#define _mm512_loadu_si512 simde_mm512_loadu_si512
#define _mm512_mask_blend_epi32 simde_mm512_mask_blend_epi32
#define _mm512_mask_blend_ps simde_mm512_mask_blend_ps
#define _mm512_maskz_mov_ps simde_mm512_maskz_mov_ps
#define _mm512_max_ps simde_mm512_max_ps
#define _mm512_min_ps simde_mm512_min_ps
#define _mm512_mul_ps simde_mm512_mul_ps
#define _mm512_or_si512 simde_mm512_or_si512
#define _mm512_roundscale_ps simde_mm512_roundscale_ps
#define _mm512_set1_epi32 simde_mm512_set1_epi32
#define _mm512_set1_ps simde_mm512_set1_ps
#define _mm512_setzero_pd simde_mm512_setzero_pd
#define _mm512_setzero_ps simde_mm512_setzero_ps
#define _mm512_slli_epi32 simde_mm512_slli_epi32
#define _mm512_srli_epi32 simde_mm512_srli_epi32
#define _mm512_storeu_si512 simde_mm512_storeu_si512
#define _mm512_storeu_pd simde_mm512_storeu_pd
#define _mm512_storeu_ps simde_mm512_storeu_ps
#define _mm512_sub_ps simde_mm512_sub_ps
#define _mm512_madd_epi16 simde_mm512_madd_epi16
#define _mm512_mask_and_epi32 simde_mm512_mask_and_epi32
#define _mm512_mask_or_epi32 simde_mm512_mask_or_epi32
#define _mm512_max_epi32 simde_mm512_max_epi32
#define _mm512_sllv_epi32 simde_mm512_sllv_epi32
#define _mm512_test_epi32_mask simde_mm512_test_epi32_mask
#define _mm512_test_epi16_mask simde_mm512_test_epi16_mask
#define _mm512_testn_epi32_mask(a, b) \
  simde_mm512_cmpeq_epi32_mask(simde_mm512_and_si512(a, b), simde_mm512_setzero_si512())
