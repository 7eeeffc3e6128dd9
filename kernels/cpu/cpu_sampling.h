// The sampling operators of the cpu backend over one row of logits; see kernels/backend.h.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace tutti::kernels::cpu {

int32_t ArgMaxOfRow(const KernelTable& kernels, const float* x, int64_t cols);
// NaN when the row holds one, else +Inf when it holds one; -Inf for a row of -Inf only.
double LogSumExpOfRow(const KernelTable& kernels, const float* x, int64_t cols,
                      double inverse_temperature);
// Memory of TopOfRow's that is kept.
struct TopScratch {
  std::vector<float> largest, order;  // of the row's pieces
};
// Leaves NaN out.
void TopOfRow(const KernelTable& kernels, const float* x, int64_t cols, int64_t count,
              TopScratch* scratch, std::vector<Candidate>* out);

}  // namespace tutti::kernels::cpu
