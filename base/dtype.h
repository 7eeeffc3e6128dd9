// Element types of the numbers we compute with and store: weights, activations, K/V rows.
//
// A checkpoint may hold more types than these (integers, 8-bit floats); model/checkpoint.h names
// those itself. A kernel sees one of the three here.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

enum class DType : uint8_t { kF32, kBF16, kF16 };

// Bytes of one element.
constexpr int64_t DTypeBytes(DType type) { return type == DType::kF32 ? 4 : 2; }

// "f32", "bf16", "f16": the spelling of command lines, logs and status pages.
constexpr std::string_view DTypeName(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
  }
  return "unknown";
}

}  // namespace tutti
