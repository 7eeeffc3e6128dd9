// The place of rows that are packed for a product by the kernel that makes them.
#pragma once

#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// Rows on their way into a product, as PackRowsArgs of packing.h leaves them.
struct PackedTarget {
  uint16_t* rows = nullptr;  // PackedRowIndex; nullptr: f32 rows are wanted instead
  float* scale = nullptr;    // f16 only: ScaleIndex
  LeafMap leaves;            // of the product's weight
  int8_t bf16 = 1;
  int8_t wide = 0;     // WideActivationIndex instead, of bf16
  int16_t pieces = 0;  // of PackedRowIndex
};

}  // namespace tutti::kernels::cuda
