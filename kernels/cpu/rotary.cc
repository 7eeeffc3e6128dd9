#include "kernels/cpu/rotary.h"

#include <algorithm>

namespace tutti::kernels::cpu {
namespace {

// pi / 2 in three parts. The first two have 33 bits each, so their products with a quadrant number
// below 2^20 are exact.
constexpr double kHalfPi1 = 0x1.921fb544p+0;
constexpr double kHalfPi2 = 0x1.0b4611a6p-34;
constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// Taylor series on |x| <= pi / 4: the first term left out is below 7e-13 for the sine, 4e-12 for
// the cosine.
double SineNear0(double x) {
  const double y = x * x;
  double p = 1.0 / 6227020800;
  p = p * y - 1.0 / 39916800;
  p = p * y + 1.0 / 362880;
  p = p * y - 1.0 / 5040;
  p = p * y + 1.0 / 120;
  p = p * y - 1.0 / 6;
  return x + x * y * p;
}
double CosineNear0(double x) {
  const double y = x * x;
  double p = 1.0 / 479001600;
  p = p * y - 1.0 / 3628800;
  p = p * y + 1.0 / 40320;
  p = p * y - 1.0 / 720;
  p = p * y + 1.0 / 24;
  p = p * y - 1.0 / 2;
  return 1 + y * p;
}

}  // namespace

SinCos SinCosOf(double angle) {
  const double scaled = angle * kTwoOverPi;
  const int64_t quadrant = static_cast<int64_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double n = static_cast<double>(quadrant);
  const double x = ((angle - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double s = SineNear0(x);
  const double c = CosineNear0(x);
  switch (quadrant & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

void RotaryTable::Prepare(std::span<const int32_t> positions,
                          std::span<const float> inverse_frequency) {
  if (std::equal(positions.begin(), positions.end(), positions_.begin(), positions_.end()) &&
      std::equal(inverse_frequency.begin(), inverse_frequency.end(), inverse_frequency_.begin(),
                 inverse_frequency_.end())) {
    return;
  }
  positions_.assign(positions.begin(), positions.end());
  inverse_frequency_.assign(inverse_frequency.begin(), inverse_frequency.end());
  half_ = static_cast<int64_t>(inverse_frequency.size());
  table_.resize(positions.size() * inverse_frequency.size() * 2);
  float* to = table_.data();
  for (int32_t position : positions) {
    for (int64_t i = 0; i < half_; ++i) {
      const float angle = static_cast<float>(position) * inverse_frequency[i];
      const SinCos value = SinCosOf(angle);
      to[i] = static_cast<float>(value.cosine);
      to[half_ + i] = static_cast<float>(value.sine);
    }
    to += 2 * half_;
  }
}

}  // namespace tutti::kernels::cpu
