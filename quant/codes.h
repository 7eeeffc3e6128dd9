// What codes and scales of quantised checkpoints stand for, as f32: exactly.
//
// Pure.  Thread: any.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti::quant {

// 8 bits: sign, 4 of exponent (bias 7), 3 of fraction; no infinity. 0x7F and 0xFF are NaN.
constexpr bool IsE4m3Nan(uint8_t code) { return (code & 0x7F) == 0x7F; }
constexpr float E4m3ToF32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t exponent = (code >> 3) & 0xF;
  const uint32_t fraction = code & 0x7;
  if (IsE4m3Nan(code)) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (fraction << 20));
}

// 4 bits: sign, 2 of exponent, 1 of fraction.
constexpr float E2m1ToF32(uint8_t code) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float value = kMagnitudes[code & 7];
  return (code & 8) != 0 ? -value : value;
}

// 8 bits of exponent: 2^(code - 127). 0xFF is NaN.
constexpr bool IsE8m0Nan(uint8_t code) { return code == 0xFF; }
constexpr float E8m0ToF32(uint8_t code) {
  if (IsE8m0Nan(code)) return std::bit_cast<float>(0x7FC00000u);
  return code == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

}  // namespace tutti::quant
