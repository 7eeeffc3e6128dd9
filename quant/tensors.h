// The tensors of one matrix, with their shapes checked and their numbers as they are.
//
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "quant/tensor_source.h"

namespace tutti::quant {

// INVALID_ARGUMENT "tensor "NAME": why".
absl::Status Refuse(std::string_view tensor, std::string_view why);

class Tensors {
 public:
  // REQUIRES: both outlive this
  Tensors(const TensorSource& source, const std::string& prefix)
      : source_(source), prefix_(prefix) {}

  std::string NameOf(std::string_view part) const { return prefix_ + "." + std::string(part); }
  bool Has(std::string_view part) const { return source_.Find(NameOf(part)) != nullptr; }
  // Null: there is none.
  const model::TensorInfo* Find(std::string_view part) const { return source_.Find(NameOf(part)); }
  // The two dimensions of a matrix.
  struct Shape {
    int64_t rows = 0;
    int64_t columns = 0;
  };
  absl::StatusOr<Shape> ShapeOf(std::string_view part) const;

  // All elements of the tensor `part`. Its type must be one of those named, its shape the given.
  absl::StatusOr<std::vector<uint32_t>> Words(std::string_view part, Shape shape) const;  // I32
  absl::StatusOr<std::vector<uint8_t>> Bytes(std::string_view part, Shape shape,
                                             std::span<const model::StoredType> types) const;
  // F32, F16, BF16, or E8M0 (also as U8), each above 0 and finite; [1], [] and [n, 1] are the same
  // as their numbers of elements.
  absl::StatusOr<std::vector<float>> Scales(std::string_view part, int64_t count) const;
  // Elements of a list of integers: I32 or I64.
  absl::StatusOr<std::vector<int64_t>> Integers(std::string_view part, int64_t count) const;

 private:
  absl::StatusOr<std::vector<std::byte>> Read(std::string_view part,
                                              std::span<const model::StoredType> types,
                                              int64_t count) const;
  absl::Status CheckShape(std::string_view part, Shape shape) const;

  const TensorSource& source_;
  const std::string& prefix_;
};

// The field of `bits` bits number `index` of words, lowest bits first.
inline uint32_t Field(std::span<const uint32_t> words, int64_t index, int bits) {
  const int64_t per_word = 32 / bits;
  const uint32_t word = words[static_cast<size_t>(index / per_word)];
  return word >> (index % per_word * bits) & ((1u << bits) - 1);
}

}  // namespace tutti::quant
