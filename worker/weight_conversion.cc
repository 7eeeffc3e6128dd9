#include "worker/weight_conversion.h"

#include <cstddef>
#include <cstdint>

#include "kernels/float_formats.h"

namespace tutti::worker {

void ConvertParts(DType type, kernels::WeightSource* source, std::vector<float>* staging) {
  int64_t elements = 0;
  for (const kernels::TensorView& part : source->parts) elements += part.rows * part.cols;
  staging->resize(static_cast<size_t>(elements * DTypeBytes(type)) / sizeof(float) + 1);
  auto* to = reinterpret_cast<std::byte*>(staging->data());
  for (kernels::TensorView& part : source->parts) {
    for (int64_t r = 0; r < part.rows; ++r) {
      for (int64_t c = 0; c < part.cols; ++c) {
        const float value = kernels::LoadAsF32(part.data, part.dtype, r * part.row_stride + c);
        kernels::StoreFromF32(to, type, r * part.cols + c, value);
      }
    }
    part.data = to;
    part.dtype = type;
    part.row_stride = part.cols;
    to += part.rows * part.cols * DTypeBytes(type);
  }
}

}  // namespace tutti::worker
