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

std::vector<model::HeadSlice> HeldRows(const model::ShardTensor& part, int64_t head_dim,
                                       const std::vector<model::HeadSlice>& head_order) {
  using model::Role;
  const Role role = part.spec.role;
  const int64_t rows = part.rows.size();
  const bool turned = role == Role::kQuery || role == Role::kKey || role == Role::kQueryBias ||
                      role == Role::kKeyBias || role == Role::kQueryNorm || role == Role::kKeyNorm;
  const bool plain = !turned || head_order.size() == 1;
  if (plain && part.copies.empty()) return {{0, rows, 1}};
  std::vector<model::HeadSlice> order;
  for (int64_t head = 0; head < rows; head += head_dim) {
    int64_t times = part.copies.empty() ? 1 : part.copies[static_cast<size_t>(head / head_dim)];
    for (; times > 0; --times) {
      if (plain) order.push_back({head, head_dim, 1});
      for (const model::HeadSlice& slice : head_order) {
        if (!plain) order.push_back({head + slice.first, slice.count, slice.step});
      }
    }
  }
  return order;
}

}  // namespace tutti::worker
