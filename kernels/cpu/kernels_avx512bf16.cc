// Compiled with AVX-512 BF16. Includes nothing whose inline functions another file may share.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx512.h"

namespace tutti::kernels::cpu {
namespace {

struct Avx512Bf16 : Avx512 {
  // acc[i] + a.high * w[i].high, then + a.low * w[i].low.
  TUTTI_INLINE F Dot(F acc, uint32_t a, const uint8_t* w) {
    return DotUnit(acc, a, _mm512_loadu_si512(w));
  }
  TUTTI_INLINE F DotUnit(F acc, uint32_t a, __m512i unit) {
    const __m512i x = _mm512_set1_epi32(static_cast<int>(a));
    return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)unit);
  }
  TUTTI_INLINE F DotEven(F acc, uint32_t a, const uint8_t* w) {
    const __m512i low = _mm512_set1_epi32(0xffff);
    const __m512i x = _mm512_set1_epi32(static_cast<int>(a & 0xffffu));
    const __m512i y = _mm512_and_si512(_mm512_loadu_si512(w), low);
    return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)y);
  }
#ifndef TUTTI_AVX512_BY_SIMDE
  // By the instruction, which differs from Bf16Bits at denormals only: it takes them as zero.
  TUTTI_INLINE F StoreNormalBf16(uint16_t* p, F x) {
    const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(x);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  }
#endif
};

}  // namespace

const KernelTable& Avx512Bf16Kernels() {
#ifndef TUTTI_AVX512_BY_SIMDE
  using ByF32 = FlushedFormat<Avx512Bf16>;
#else
  using ByF32 = DotFormat<Avx512Bf16>;
#endif
  static constexpr KernelTable kTable =
      Kernels<Avx512Bf16, DotFormat<Avx512Bf16>, ByF32>::Table(DotBurst<Avx512Bf16>);
  return kTable;
}

}  // namespace tutti::kernels::cpu
