// Compiled with AVX-512 BF16. Includes nothing whose inline functions another file may share.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx512.h"

namespace tutti::kernels::cpu {
namespace {

struct Avx512Bf16 : Avx512 {
  // acc[i] + a.high * w[i].high, then + a.low * w[i].low.
  TUTTI_INLINE F Dot(F acc, uint32_t a, const uint8_t* w) {
    const __m512i x = _mm512_set1_epi32(static_cast<int>(a));
    return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)_mm512_loadu_si512(w));
  }
  TUTTI_INLINE F DotEven(F acc, uint32_t a, const uint8_t* w) {
    const __m512i low = _mm512_set1_epi32(0xffff);
    const __m512i x = _mm512_set1_epi32(static_cast<int>(a & 0xffffu));
    const __m512i y = _mm512_and_si512(_mm512_loadu_si512(w), low);
    return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)y);
  }
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
