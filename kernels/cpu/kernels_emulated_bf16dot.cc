// The bf16 dot kernels on machines without the instruction, for tests. Compiled with -mavx2 -mfma
// -mf16c.
#include "kernels/cpu/make_table.h"
#include "kernels/cpu/simd_avx2.h"

namespace tutti::kernels::cpu {

const KernelTable& EmulatedBf16DotKernels() {
  static constexpr KernelTable kTable = Kernels<Avx2, FlushedFormat<Avx2>>::Table(nullptr);
  return kTable;
}

}  // namespace tutti::kernels::cpu
