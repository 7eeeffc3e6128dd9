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
    const float value = kernels::CodeValue(kind, code, zero) * scale;
    row[k] = value * tensor_scale;
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
  return part;
}

}  // namespace tutti::quant
