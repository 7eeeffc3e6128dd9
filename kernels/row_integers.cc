#include "kernels/row_integers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tutti::kernels {

// As integers: NaN is above Inf, and Inf above all numbers.
float LargestOfRow(const float* row, int64_t cols) {
  int32_t largest = 0;
  for (int64_t k = 0; k < cols; ++k) {
    largest = std::max(largest, std::bit_cast<int32_t>(row[k]) & 0x7fffffff);
  }
  return std::bit_cast<float>(largest);
}

float RowScale(float largest) {
  return std::isfinite(largest) ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
}

void RoundRow(const float* row, int64_t cols, float scale, int16_t* out) {
  if (!(scale > 0)) {
    std::fill(out, out + cols, int16_t{0});
    return;
  }
  // Added and taken away, it leaves an integer, rounded to nearest even.
  constexpr float kUnits = 0x1.8p23f;
  for (int64_t k = 0; k < cols; ++k) {
    const float within = std::min(std::max(row[k] / scale, -127.f), 127.f);
    out[k] = static_cast<int16_t>(within + kUnits - kUnits);
  }
}

}  // namespace tutti::kernels
