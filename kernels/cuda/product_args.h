// Arguments of the tensor-core products of product.h and product_hopper.h.
#pragma once

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
  // The weight is by PlainRowIndex; only up to kLeafSumRows rows. [0, 1]
  int64_t plain_rows = 0;
};

// Floats of leaf_sums that a product needs.
inline int64_t LeafSumCount(const LeafMap& leaves, int64_t rows, int64_t out_features) {
  const bool in_memory = leaves.leaves > 1 && rows > kStreamRows && rows <= kLeafSumRows;
  return in_memory ? leaves.leaves * rows * out_features : 0;
}

}  // namespace tutti::kernels::cuda
