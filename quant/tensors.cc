#include "quant/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/float_formats.h"
#include "model/json_document.h"
#include "quant/codes.h"

namespace tutti::quant {

using model::StoredType;
using model::TensorInfo;

namespace {

constexpr StoredType kWordTypes[] = {StoredType::kI32};
constexpr StoredType kIntegerTypes[] = {StoredType::kI32, StoredType::kI64};
constexpr StoredType kScaleTypes[] = {StoredType::kF32, StoredType::kF16, StoredType::kBF16,
                                      StoredType::kF8E8M0, StoredType::kU8};

int64_t ElementsOf(const TensorInfo& tensor) {
  return tensor.bytes / model::StoredTypeBytes(tensor.dtype);
}

template <typename Value>
std::vector<Value> Copy(const std::vector<std::byte>& bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

float ScaleAt(const std::vector<std::byte>& bytes, StoredType type, int64_t index) {
  switch (type) {
    case StoredType::kF32:
      return kernels::LoadAsF32(bytes.data(), DType::kF32, index);
    case StoredType::kF16:
      return kernels::LoadAsF32(bytes.data(), DType::kF16, index);
    case StoredType::kBF16:
      return kernels::LoadAsF32(bytes.data(), DType::kBF16, index);
    default:
      return E8m0ToF32(static_cast<uint8_t>(bytes[static_cast<size_t>(index)]));
  }
}

}  // namespace

absl::Status Refuse(std::string_view tensor, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", model::Quoted(tensor), ": ", std::string(why)));
}

absl::StatusOr<Tensors::Shape> Tensors::ShapeOf(std::string_view part) const {
  const TensorInfo* const found = Find(part);
  if (found == nullptr) return Refuse(NameOf(part), "is missing");
  if (found->shape.size() != 2 || found->shape[0] < 1 || found->shape[1] < 1) {
    return Refuse(NameOf(part), absl::StrCat("has shape ", found->ShapeText(), ", not [a, b]"));
  }
  return Shape{found->shape[0], found->shape[1]};
}

absl::StatusOr<std::vector<std::byte>> Tensors::Read(std::string_view part,
                                                     std::span<const StoredType> types,
                                                     int64_t count) const {
  const std::string name = NameOf(part);
  const TensorInfo* const found = source_.Find(name);
  if (found == nullptr) return Refuse(name, "is missing");
  if (std::find(types.begin(), types.end(), found->dtype) == types.end()) {
    const std::string wanted = absl::StrJoin(types, " or ", [](std::string* out, StoredType type) {
      absl::StrAppend(out, std::string(model::StoredTypeName(type)));
    });
    return Refuse(name, absl::StrCat("has dtype ", std::string(model::StoredTypeName(found->dtype)),
                                     ", expected ", wanted));
  }
  if (ElementsOf(*found) != count) {
    return Refuse(
        name, absl::StrCat("has shape ", found->ShapeText(), ", expected ", count, " elements"));
  }
  return source_.Read(name);
}

absl::Status Tensors::CheckShape(std::string_view part, Shape shape) const {
  const TensorInfo* const found = Find(part);
  if (found == nullptr) return Refuse(NameOf(part), "is missing");
  if (found->shape == std::vector<int64_t>{shape.rows, shape.columns}) return absl::OkStatus();
  return Refuse(NameOf(part), absl::StrCat("has shape ", found->ShapeText(), ", expected [",
                                           shape.rows, ", ", shape.columns, "]"));
}

absl::StatusOr<std::vector<uint32_t>> Tensors::Words(std::string_view part, Shape shape) const {
  TUTTI_RETURN_IF_ERROR(CheckShape(part, shape));
  TUTTI_ASSIGN_OR_RETURN(const auto bytes, Read(part, kWordTypes, shape.rows * shape.columns));
  return Copy<uint32_t>(bytes);
}

absl::StatusOr<std::vector<uint8_t>> Tensors::Bytes(std::string_view part, Shape shape,
                                                    std::span<const StoredType> types) const {
  TUTTI_RETURN_IF_ERROR(CheckShape(part, shape));
  TUTTI_ASSIGN_OR_RETURN(const auto bytes, Read(part, types, shape.rows * shape.columns));
  return Copy<uint8_t>(bytes);
}

absl::StatusOr<std::vector<float>> Tensors::Scales(std::string_view part, int64_t count) const {
  TUTTI_ASSIGN_OR_RETURN(const auto bytes, Read(part, kScaleTypes, count));
  const StoredType type = Find(part)->dtype;
  std::vector<float> scales(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const float scale = ScaleAt(bytes, type, i);
    if (!std::isfinite(scale) || scale <= 0) {
      return Refuse(NameOf(part),
                    absl::StrCat("element ", i, " is ", scale, ", which is no scale"));
    }
    scales[static_cast<size_t>(i)] = scale;
  }
  return scales;
}

absl::StatusOr<std::vector<int64_t>> Tensors::Integers(std::string_view part, int64_t count) const {
  TUTTI_ASSIGN_OR_RETURN(const auto bytes, Read(part, kIntegerTypes, count));
  if (Find(part)->dtype == StoredType::kI64) return Copy<int64_t>(bytes);
  const auto narrow = Copy<int32_t>(bytes);
  return std::vector<int64_t>(narrow.begin(), narrow.end());
}

}  // namespace tutti::quant
