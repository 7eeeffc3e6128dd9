// Compiled with -mavx2 -mfma -mf16c. Includes nothing whose inline functions another file may
// share.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx2.h"

namespace tutti::kernels::cpu {

const KernelTable& Avx2Kernels() {
  static constexpr KernelTable kTable =
      Kernels<Avx2, FmaFormat<Avx2, LoadBf16Unit>>::Table(nullptr);
  return kTable;
}

}  // namespace tutti::kernels::cpu
