// Rows on their way into a product by cuBLASLt and out of it: plain matrices of 16-bit values, and
// the scales of f16 rows (docs/decisions/0072).
#pragma once

#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// out = the rows of `in` rounded to the weight's type, zeros where a leaf is padded; of f16 each
// row divided by a power of two of its own, where f16 cannot hold it, which `scale` is set to.
struct PlainRowsArgs {
  const float* in = nullptr;  // [rows, k]
  int64_t in_stride = 0;
  uint16_t* out = nullptr;  // PlainRowIndex
  float* scale = nullptr;   // [rows], f16 only
  int32_t rows = 0;
  LeafMap leaves;
  int64_t bf16 = 1;
};
void LaunchPlainRows(const PlainRowsArgs& args, Launcher* launcher);

// out[r, :] *= scale[r], where that is not 1.
struct ScaleBackRowsArgs {
  float* out = nullptr;  // [rows, cols]
  int64_t out_stride = 0;
  const float* scale = nullptr;  // [rows]
  int64_t rows = 0;
  int64_t cols = 0;
};
void LaunchScaleBackRows(const ScaleBackRowsArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
