// Products with packed weights, as kernels.
//
// One voice by construction: an output is one chain of tensor-core instructions over the chunks of
// each leaf, in order, from zero, in every kernel that computes it and beside any other rows;
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
#include "kernels/cuda/product_args.h"

namespace tutti::kernels::cuda {

// `in` by ActivationIndex.   REQUIRES: rows > 0; of plain rows, at most kLeafSumRows
void LaunchProduct(DType type, const ProductArgs& args, Launcher* launcher);

// out = the tree of the sums that a product has left in leaf_sums; nothing where LeafSumCount is 0.
void LaunchAddLeafSums(const ProductArgs& args, Launcher* launcher);

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

}  // namespace tutti::kernels::cuda
