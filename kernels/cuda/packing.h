// Weights and rows brought into the layout in which products read them (layout.h), and rows of a
// weight read back, as kernels.
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// out = the rows of `in` rounded to the weight's type, zeros where a leaf is padded; of f16 divided
// by `scale`, which is set.
struct PackRowsArgs {
  const float* in = nullptr;  // [rows, k]
  int64_t in_stride = 0;
  uint16_t* out = nullptr;  // PackedRowIndex, or WideActivationIndex
  float* scale = nullptr;   // f16 only: ScaleIndex
  int32_t rows = 0;
  LeafMap leaves;
  bool bf16 = true;
  bool wide = false;
  int16_t pieces = 0;  // of PackedRowIndex
  int32_t gap = 0;
};
void LaunchPackRows(const PackRowsArgs& args, Launcher* launcher);

// Moves rows of a checkpoint's matrix, already on the device, to their places.
struct PackWeightArgs {
  const void* in = nullptr;  // [rows, k], rows next to each other
  void* out = nullptr;
  int64_t first_row = 0;  // of the packed weight
  int64_t rows = 0;
  int64_t padded_out = 0;  // f32 only
  LeafMap leaves;
  DType type = DType::kBF16;
  bool plain_rows = false;  // 16-bit weights: PlainRowIndex
  uint8_t gap[2] = {};
};
void LaunchPackWeight(const PackWeightArgs& args, Launcher* launcher);

// out[r, :] = row ids[r] of the weight, as f32.
struct EmbedArgs {
  const void* weight = nullptr;
  const int32_t* ids = nullptr;  // [rows]
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t padded_out = 0;
  LeafMap leaves;
  int32_t rows = 0;
  DType type = DType::kBF16;
  bool plain_rows = false;  // as in PackWeightArgs
  uint8_t gap[6] = {};
};
void LaunchEmbed(const EmbedArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
