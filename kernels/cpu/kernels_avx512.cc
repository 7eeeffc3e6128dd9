// Compiled with AVX-512 F, BW, DQ and VL. Includes nothing whose inline functions another file may
// share.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx512.h"

namespace tutti::kernels::cpu {

const KernelTable& Avx512Kernels() {
  static constexpr KernelTable kTable =
      Kernels<Avx512, FmaFormat<Avx512, LoadBf16Unit>>::Table(nullptr);
  return kTable;
}

}  // namespace tutti::kernels::cpu
