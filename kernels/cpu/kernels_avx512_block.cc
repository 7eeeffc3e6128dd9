// Sums of blocks by AVX-512's f32 multiply-adds. Compiled with AVX-512. Includes nothing
// whose inline functions another file may share.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx512.h"

namespace tutti::kernels::cpu {

const KernelTable& Avx512BlockKernels() {
  static constexpr KernelTable kTable = Kernels<Avx512, BlockFormat<Avx512>>::Table(nullptr);
  return kTable;
}

}  // namespace tutti::kernels::cpu
