// The kernel table of one instruction set: every kernel template over S, and over Bf16 as the
// format of bf16 data, and over Bf16ByF32: another format with the same bits, or the same one.
#pragma once

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/elementwise_kernels.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/pack_rows.h"
#include "kernels/cpu/probe_kernels.h"
#include "kernels/cpu/quantised_kernels.h"
#include "kernels/cpu/sampling_kernels.h"

namespace tutti::kernels::cpu {

template <class S, class Bf16, class Bf16ByF32 = Bf16>
struct Kernels {
  using F16 = FmaFormat<S, LoadF16Unit>;
  using F32 = FmaFormat<S, LoadF32Unit>;

  static void PackRows(const MatMulJob& job, int64_t begin, int64_t end) {
    // f16 and f32 read the same packed rows.
    if (job.dtype == DType::kBF16) {
      if (job.tuning.by_f32) return PackTiles<Bf16ByF32>(job, begin, end);
      return PackTiles<Bf16>(job, begin, end);
    }
    PackTiles<F32>(job, begin, end);
  }
  static void MatMul(const MatMulJob& job, int64_t begin, int64_t end, float* scratch,
                     uint64_t* slices) {
    if (job.dtype == DType::kBF16) {
      if (job.tuning.by_f32) return MatMulGroups<Bf16ByF32>(job, begin, end, scratch, slices);
      return MatMulGroups<Bf16>(job, begin, end, scratch, slices);
    }
    if (job.dtype == DType::kF16) return MatMulGroups<F16>(job, begin, end, scratch, slices);
    MatMulGroups<F32>(job, begin, end, scratch, slices);
  }
  // f32 rows are multiplied with codes as bf16 is in the class cpu-f32.
  using F32ByBf16 = FmaFormat<S, LoadBf16Unit>;
  static void MatMulQuantised(const QuantisedJob& job, int64_t begin, int64_t end, float* scratch,
                              uint64_t* slices) {
    if (job.row_scales != nullptr) {
      return QuantisedGroups<IntegerFormat<S>>(job, begin, end, scratch, slices);
    }
    if (job.rows.dtype == DType::kF32) {
      return QuantisedGroups<F32ByBf16>(job, begin, end, scratch, slices);
    }
    if (job.rows.tuning.by_f32) {
      return QuantisedGroups<Bf16ByF32>(job, begin, end, scratch, slices);
    }
    QuantisedGroups<Bf16>(job, begin, end, scratch, slices);
  }
  static void Attention(const AttentionJob& job, const AttentionItem& item, float* scratch,
                        uint64_t* slices) {
    if (job.dtype == DType::kBF16) {
      if (job.by_f32) return Attend<Bf16ByF32>(job, item, scratch, slices);
      return Attend<Bf16>(job, item, scratch, slices);
    }
    if (job.dtype == DType::kF16) return Attend<F16>(job, item, scratch, slices);
    Attend<F32>(job, item, scratch, slices);
  }
  static constexpr bool kBothWays = !__is_same(Bf16, Bf16ByF32);
  static constexpr bool kStreamsFewRows = S::Panels(2) == kMatMulGroupUnits;

  // `dot_burst`: DotBurst of S where S has a dot instruction.
  static constexpr KernelTable Table(int64_t (*dot_burst)(int64_t)) {
    return {PackRows,           nullptr,    MatMul,
            MatMulQuantised,    Attention,  RmsNormRow<S>,
            HeadNormRopeRow<S>, AddRow<S>,  SiluMulRow<S>,
            ConvertRow<S>,      Largest<S>, FindEqual<S>,
            SumExp<S>,          ReadAll<S>, FmaBurst<S>,
            dot_burst,          nullptr,    kStreamsFewRows,
            kBothWays,          kTileRows,  false,
            kAttentionEntries};
  }
};

}  // namespace tutti::kernels::cpu
