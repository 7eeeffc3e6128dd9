// Scalar conversions between f32 and the 16-bit formats, exact to the bit: round to nearest even,
// denormals kept, overflow to infinity, NaN stays NaN.
//
// These are inline functions: files compiled for a wider instruction set than the baseline must not
// include this header, or the linker could pick their copy for the whole program. The vector
// versions live in kernels/cpu/simd_*.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/dtype.h"

namespace tutti::kernels {

inline float Bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >=
      0x7c00u) {  // infinity or NaN; a NaN becomes quiet, as the hardware conversion makes it
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) | quiet);
  }
  if (magnitude < 0x400u) {  // zero or denormal: magnitude * 2^-24, exact in f32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

inline uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to >= 2^16
  if (magnitude < 0x38800000u) {
    // Below the smallest normal half, 2^-14. Adding 0.5 aligns the value to units of 2^-24, the
    // spacing of denormal halves, and rounds it to nearest even on the way.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

// Element `index` of an array of `type` at `data`, which need not be aligned.
inline float LoadAsF32(const void* data, DType type, int64_t index) {
  const char* at = static_cast<const char*>(data) + index * DTypeBytes(type);
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return type == DType::kBF16 ? Bf16ToF32(bits) : F16ToF32(bits);
}

inline void StoreFromF32(void* data, DType type, int64_t index, float value) {
  char* at = static_cast<char*>(data) + index * DTypeBytes(type);
  if (type == DType::kF32) {
    std::memcpy(at, &value, sizeof(value));
    return;
  }
  const uint16_t bits = type == DType::kBF16 ? F32ToBf16(value) : F32ToF16(value);
  std::memcpy(at, &bits, sizeof(bits));
}

// `value`, or NaN where `type` would hold an infinity.
inline float NumberOrNan(DType type, float value) {
  // From here on the nearest number of the type is infinity.
  const float infinite = type == DType::kF16    ? 0x1.ffep15f
                         : type == DType::kBF16 ? 0x1.ffp127f
                                                : std::numeric_limits<float>::infinity();
  return std::fabs(value) < infinite ? value : std::numeric_limits<float>::quiet_NaN();
}

// `value` rounded to `type` and back.
inline float RoundTo(DType type, float value) {
  switch (type) {
    case DType::kF32:
      return value;
    case DType::kBF16:
      return Bf16ToF32(F32ToBf16(value));
    case DType::kF16:
      return F16ToF32(F32ToF16(value));
  }
  return value;
}

}  // namespace tutti::kernels
