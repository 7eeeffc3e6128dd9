#include "kernels/cuda/emulated/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tutti::kernels::cuda::emulated {
namespace {

constexpr int kProductsAtOnce = 8;
constexpr int kBitsBelow = 23;  // of the largest term's leading bit
constexpr int kDoubleBias = 1023, kDoubleFraction = 52;

// 2^exponent.  REQUIRES: -1022 <= exponent <= 1023
double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + kDoubleBias) << kDoubleFraction);
}

// Of the leading bit; far below any float's for 0.
int Exponent(double value) {
  return static_cast<int>(std::bit_cast<uint64_t>(value) >> kDoubleFraction & 0x7ff) - kDoubleBias;
}

// Towards zero.
float CutToFloat(double value) {
  const auto nearest = static_cast<float>(value);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(value) ? std::nextafterf(nearest, 0)
                                                                    : nearest;
}

float AddEight(float sum, const float* left, const float* right) {
  // Exact: 24 bits times 24 at most.
  double terms[kProductsAtOnce + 1];
  terms[kProductsAtOnce] = sum;
  int largest = Exponent(sum);
  double plain = sum;
  for (int i = 0; i < kProductsAtOnce; ++i) {
    terms[i] = static_cast<double>(left[i]) * right[i];
    largest = std::max(largest, Exponent(terms[i]));
    plain += terms[i];
  }
  constexpr int kLargestFloat = 128, kSmallestFloat = -149;
  if (!std::isfinite(plain) || largest >= kLargestFloat) return static_cast<float>(plain);
  const int unit = std::max(largest - kBitsBelow, kSmallestFloat);
  const double units = PowerOfTwo(-unit);
  int64_t total = 0;
  for (const double term : terms) total += static_cast<int64_t>(term * units);
  return CutToFloat(static_cast<double>(total) * PowerOfTwo(unit));
}

}  // namespace

bool TensorCoresTruncate() {
  static const bool truncate = [] {
    const char* const set = std::getenv("TUTTI_EMULATED_TENSOR_CORE");
    return set != nullptr && std::strcmp(set, "truncating") == 0;
  }();
  return truncate;
}

float TruncatingSum(float sum, const float (&left)[16], const float (&right)[16]) {
  for (int i = 0; i < 16; i += kProductsAtOnce) sum = AddEight(sum, left + i, right + i);
  return sum;
}

}  // namespace tutti::kernels::cuda::emulated
