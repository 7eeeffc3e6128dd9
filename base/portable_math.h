// exp, log and powers as fixed sequences of operations that IEEE 754 rounds exactly: + - * / of f64
// in one order, without contraction (the build says -ffp-contract=off). A library's functions
// change their last bit from version to version and by the instructions that the machine has, and a
// bit of a weight is a token of an answer.
//
// Inline so that loops over them become vectors; a lane takes the same operations.
//
// Thread: any.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace tutti {

// e^x = value * 2^exponent, value within 1 ulp in [1/2, 2).  REQUIRES: |x| < 2^20
//
// x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n e^r. The upper part of ln 2 has 33 bits, so
// that n times it is exact. The series for e^r loses less than 2^-57 after fourteen terms.
struct ScaledExp {
  double value;
  int64_t exponent;
};
inline ScaledExp ExpInParts(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42feep-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kRound = 0x1.8p52;  // a sum with it has no digits behind the point
  const double shifted = x * kLog2E + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // (e^r - 1 - r) / r^2, even and odd terms apart: two short chains instead of a long one.
  const double y = r * r;
  double even = 1.0 / 479001600, odd = 1.0 / 6227020800;
  even = even * y + 1.0 / 3628800;
  odd = odd * y + 1.0 / 39916800;
  even = even * y + 1.0 / 40320;
  odd = odd * y + 1.0 / 362880;
  even = even * y + 1.0 / 720;
  odd = odd * y + 1.0 / 5040;
  even = even * y + 1.0 / 24;
  odd = odd * y + 1.0 / 120;
  even = even * y + 0.5;
  odd = odd * y + 1.0 / 6;
  return {1 + (r + y * (even + r * odd)),
          static_cast<int64_t>(std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(kRound))};
}

// REQUIRES: -1023 < n < 1024
inline double PowerOfTwo(int64_t n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// e^x within 1 ulp; a denormal result within 1 of its last digit. NaN stays NaN.
inline double Exp(double x) {
  if (!(x > -746)) return x == x ? 0 : x;
  if (x > 710) return std::numeric_limits<double>::infinity();
  const ScaledExp parts = ExpInParts(x);
  const int64_t half = parts.exponent / 2;
  return parts.value * PowerOfTwo(half) * PowerOfTwo(parts.exponent - half);
}

// Natural logarithm within 3 ulp. -Inf for 0; NaN below 0 and for NaN.
//
// x = 2^exponent m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
// 0.1716. The series in s^2 < 0.0295 loses less than 1e-18 after ten terms.
inline double Log(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  if (!(x > 0)) {
    return x == 0 ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::quiet_NaN();
  }
  if (x == std::numeric_limits<double>::infinity()) return x;
  int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double y = s * s;
  double p = 0;
  for (int k = 21; k >= 1; k -= 2) p = p * y + 1.0 / k;
  return static_cast<double>(exponent) * kLn2 + 2 * s * p;
}

// x^y within (2 + |y log x|) * 2^-52 of it.  REQUIRES: x > 0
inline double Pow(double x, double y) { return Exp(y * Log(x)); }

}  // namespace tutti
