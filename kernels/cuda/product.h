// Products with packed weights, as kernels.
//
// One voice by construction: an output is one chain of tensor-core instructions over the chunks of
// each leaf, in order, from zero, whichever kernel computes it and whatever rows stand beside it;
// the leaves are added in the tree of AddLeaf. Row and column of an output inside the instruction
// do not change its bits.
//
// Rows that f16 cannot hold are divided by a power of two on their way into a product with f16
// weights, and its sums multiplied by it: each leaf of each row by its own, so that neither other
// rows nor ranks are seen. Leaves of numbers that f16 holds keep theirs, as if there were no scales
// (docs/decisions/0021-rows-beyond-f16.md).
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

struct ProductArgs {
  const uint16_t* weight = nullptr;  // WeightIndex
  const uint16_t* in = nullptr;      // ActivationIndex, of the weight's type (or product_hopper.h)
  // [rows, out_features]; nullptr where LeafSumCount is not 0: the leaves are not added up.
  float* out = nullptr;
  int64_t out_stride = 0;
  int32_t rows = 0;
  int32_t out_features = 0;
  int32_t out_tiles = 0;
  LeafMap leaves;
  float* leaf_sums = nullptr;    // [leaves][rows][out_features], where LeafSumCount is not 0
  const float* scale = nullptr;  // f16 only: ScaleIndex
};

// Floats of leaf_sums that a product needs.
inline int64_t LeafSumCount(const LeafMap& leaves, int64_t rows, int64_t out_features) {
  const bool in_memory = leaves.leaves > 1 && rows > kStreamRows && rows <= kLeafSumRows;
  return in_memory ? leaves.leaves * rows * out_features : 0;
}
// REQUIRES: rows > 0
void LaunchProduct(DType type, const ProductArgs& args, Launcher* launcher);

// out = the rows of `in` rounded to the weight's type, zeros where a leaf is padded; of f16 divided
// by `scale`, which is set.
struct PackRowsArgs {
  const float* in = nullptr;  // [rows, k]
  int64_t in_stride = 0;
  uint16_t* out = nullptr;  // ActivationIndex, or WideActivationIndex
  float* scale = nullptr;   // f16 only: ScaleIndex
  int32_t rows = 0;
  LeafMap leaves;
  bool bf16 = true;
  bool wide = false;
  uint8_t gap[6] = {};
};
void LaunchPackRows(const PackRowsArgs& args, Launcher* launcher);

// Products with f32 weights: fused multiply-adds in order of k.
struct PlainProductArgs {
  const float* weight = nullptr;  // PlainWeightIndex
  const float* in = nullptr;      // [rows, k]
  int64_t in_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  int32_t rows = 0;
  int32_t out_features = 0;
  int64_t padded_out = 0;
  LeafMap leaves;
  int32_t gap = 0;
};
void LaunchPlainProduct(const PlainProductArgs& args, Launcher* launcher);

// Moves rows of a checkpoint's matrix, already on the device, to their places.
struct PackWeightArgs {
  const void* in = nullptr;  // [rows, k], rows next to each other
  void* out = nullptr;
  int64_t first_row = 0;  // of the packed weight
  int64_t rows = 0;
  int64_t padded_out = 0;  // f32 only
  LeafMap leaves;
  DType type = DType::kBF16;
  uint8_t gap[3] = {};
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
  uint8_t gap[7] = {};
};
void LaunchEmbed(const EmbedArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
