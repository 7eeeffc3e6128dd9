#include "quant/quant_matrix.h"

#include <cstddef>

namespace tutti::quant {

void QuantMatrix::Dequantise(int64_t n, float* row) const {
  const float* const own_scales = &scales[static_cast<size_t>(n * groups)];
  for (int64_t k = 0; k < in; ++k) {
    const float value =
        codes[static_cast<size_t>(n * in + k)] * own_scales[group_of[static_cast<size_t>(k)]];
    row[k] = value * tensor_scale;
  }
}

}  // namespace tutti::quant
