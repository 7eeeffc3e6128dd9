// A quantised matrix of a linear layer, or a part of one, as its tensors say it: codes, scales, and
// the group that each input belongs to.
//
//   weight[n][k] = scale[n][group of k] * (value of code[n][k] - zero[n][group of k])
//
// and of NVFP4 scale[n] * (value of code[n][k] * inner scale[n][k / 16]).
//
// A value less its zero point is exact in bf16, and its product with a scale of 16 bits in f32.
//
// Thread: constant once read (quant_reader.h); any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "kernels/quantised_source.h"

namespace tutti::quant {

struct QuantMatrix {
  kernels::CodeKind kind = kernels::CodeKind::kInt4;
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 0;          // scales of an output, those of groups without inputs among them
  std::vector<uint8_t> codes;  // [out, in]
  std::vector<uint8_t> zeros;  // [out, groups]; empty: kernels::MiddleZero
  DType scale_type = DType::kF32;
  std::vector<std::byte> scales;  // [out, groups]
  std::vector<int32_t> group_of;  // [in]
  int64_t first_input = 0;        // of the whole matrix
  std::vector<uint8_t> inner;     // [out, inputs of the whole matrix / 16]; empty: none

  int64_t inner_stride() const { return out == 0 ? 0 : static_cast<int64_t>(inner.size()) / out; }
  // Row n as f32.  `row`: [in]
  void Dequantise(int64_t n, float* row) const;
  // Rows [first, first + rows), every `step`-th, for a backend.  REQUIRES: this outlives it
  kernels::QuantisedPart Rows(int64_t first, int64_t rows, int64_t step = 1) const;
};

}  // namespace tutti::quant
