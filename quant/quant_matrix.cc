#include "quant/quant_matrix.h"

#include "kernels/float_formats.h"

namespace tutti::quant {

void QuantMatrix::Dequantise(int64_t n, float* row) const {
  for (int64_t k = 0; k < in; ++k) {
    const int64_t group = n * groups + group_of[static_cast<size_t>(k)];
    const uint8_t zero =
        zeros.empty() ? kernels::MiddleZero(kind) : zeros[static_cast<size_t>(group)];
    const uint8_t code = codes[static_cast<size_t>(n * in + k)];
    const float scale = kernels::LoadAsF32(scales.data(), scale_type, group);
    float value = kernels::CodeValue(kind, code, zero);
    if (!inner.empty()) {
      const int64_t at = n * inner_stride() + (first_input + k) / kernels::kInnerInputs;
      value *= kernels::InnerScale(inner[static_cast<size_t>(at)]);
    }
    row[k] = value * scale;
  }
}

kernels::QuantisedPart QuantMatrix::Rows(int64_t first, int64_t rows, int64_t step) const {
  kernels::QuantisedPart part;
  part.rows = rows;
  part.codes = codes.data() + first * in;
  part.code_stride = step * in;
  part.scales = scales.data() + first * groups * DTypeBytes(scale_type);
  part.zeros = zeros.empty() ? nullptr : zeros.data() + first * groups;
  part.group_stride = step * groups;
  part.group_of = group_of;
  part.inner = inner.empty() ? nullptr : inner.data() + first * inner_stride();
  part.inner_stride = step * inner_stride();
  return part;
}

}  // namespace tutti::quant
