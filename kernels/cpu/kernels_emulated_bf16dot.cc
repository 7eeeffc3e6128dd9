// The bf16 dot kernels on machines without the instruction, for tests. Compiled with -mavx2 -mfma
// -mf16c.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx2.h"

namespace tutti::kernels::cpu {
namespace {

// VDPBF16PS as Intel's manual defines it: two fused multiply-adds, the high halves first, rounded
// to nearest even, denormal inputs taken as zero and denormal results flushed to zero, with any
// MXCSR.
struct EmulatedBf16Dot : Avx2 {
  TUTTI_INLINE F Dot(F acc, uint32_t a, const uint8_t* w) {
    const F high = Multiply(Word(a & 0xffff0000u), Bf16High(w), Flush(acc));
    return Multiply(Word(a << 16), Bf16Low(w), high);
  }
  TUTTI_INLINE F DotEven(F acc, uint32_t a, const uint8_t* w) {
    const F high = Multiply(Zero(), Zero(), Flush(acc));
    return Multiply(Word(a << 16), Bf16Low(w), high);
  }

 private:
  TUTTI_INLINE F Word(uint32_t bits) {
    const __m256 x = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(bits)));
    return {x, x};
  }
  TUTTI_INLINE F Multiply(F a, F b, F acc) { return Flush(Fma(Flush(a), Flush(b), acc)); }
  // Denormals become zero of the same sign.
  TUTTI_INLINE F Flush(F x) { return {FlushHalf(x.lo), FlushHalf(x.hi)}; }
  TUTTI_INLINE __m256 FlushHalf(__m256 x) {
    const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    const __m256 small =
        _mm256_cmp_ps(_mm256_xor_ps(x, sign), _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
    return _mm256_blendv_ps(x, sign, small);
  }
};

}  // namespace

const KernelTable& EmulatedBf16DotKernels() {
  static constexpr KernelTable kTable =
      Kernels<EmulatedBf16Dot, DotFormat<EmulatedBf16Dot>>::Table(nullptr);
  return kTable;
}

}  // namespace tutti::kernels::cpu
