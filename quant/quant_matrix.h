// A quantised matrix of a linear layer, as its tensors say it: codes, scales, and the group that
// each input column belongs to.
//
//   weight[n][k] = scale[n][group of k] * (code[n][k] - zero[n][group of k])
//
// This is the definition, plainly: every code less its zero point is exact in bf16, and the product
// with a scale of 16 bits is exact in f32. Kernels hold the same in a quarter of the memory, and
// multiply sums of codes by scales.
//
// Thread: constant once read (quant_reader.h); any.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::quant {

struct QuantMatrix {
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 0;             // scales of an output row
  std::vector<float> codes;       // [out, in], less their zero points
  std::vector<float> scales;      // [out, groups]
  std::vector<int32_t> group_of;  // [in]
  float tensor_scale = 1;         // of the whole, which multiplies finished sums

  // Row n as f32.  `row`: [in]
  void Dequantise(int64_t n, float* row) const;
};

}  // namespace tutti::quant
