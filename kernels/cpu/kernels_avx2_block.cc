// Sums of blocks by AVX2's f32 multiply-adds. Compiled with -mavx2 -mfma -mf16c. Includes nothing
// whose inline functions another file may share.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx2.h"

namespace tutti::kernels::cpu {

const KernelTable& Avx2BlockKernels() {
  static constexpr KernelTable kTable = Kernels<Avx2, BlockFormat<Avx2>>::Table(nullptr);
  return kTable;
}

}  // namespace tutti::kernels::cpu
