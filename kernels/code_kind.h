// Kinds of codes that quantised weights are made of. Plain data: the vector kernels include this.
#pragma once

#include <cstdint>

namespace tutti::kernels {

enum class CodeKind : uint8_t {
  kInt4,   // 0 to 15
  kInt8,   // 0 to 255
  kE2m1,   // 4 bits: sign, 2 of exponent, 1 of fraction
  kE4m3,   // 8 bits: sign, 4 of exponent (bias 7), 3 of fraction; 0x7F and 0xFF are none of it
  kNvfp4,  // as kE2m1, times an inner scale, an e4m3 of 16 inputs: together one bf16
};

// Kinds with zero points.
constexpr bool IsInteger(CodeKind kind) {
  return kind == CodeKind::kInt4 || kind == CodeKind::kInt8;
}

}  // namespace tutti::kernels
