#include "base/portable_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tutti {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Distance of `value` from the exact `expected` in units of the last place of a double there.
double Ulps(double value, long double expected) {
  const double near = std::abs(static_cast<double>(expected));
  const double ulp = std::nextafter(near, kInfinity) - near;
  return static_cast<double>(std::abs(value - expected) / ulp);
}

TEST(PortableMathTest, ExpIsWithinOneUlp) {
  double worst = 0;
  for (int i = 0; i < 400'000; ++i) {
    const double far = -708 + 1417 * (i / 4e5), near = -1 + 2 * (i / 4e5);
    worst = std::max({worst, Ulps(Exp(far), std::exp(static_cast<long double>(far))),
                      Ulps(Exp(near), std::exp(static_cast<long double>(near)))});
  }
  EXPECT_LT(worst, 1);
}

// Arguments of weights: differences of f32 logits over a temperature. All 2^23 of one power of two
// would take long; each 61st of every power that matters.
TEST(PortableMathTest, ExpRoundsToTheSameFloatAsTheExactOneOrItsNeighbour) {
  for (int power = -30; power <= 6; ++power) {
    for (uint32_t digits = 0; digits < 1u << 23; digits += 6111) {
      const auto bits = static_cast<uint32_t>(127 + power) << 23 | digits;
      const double x = -static_cast<double>(std::bit_cast<float>(bits));
      const auto value = static_cast<float>(Exp(x));
      const auto expected = static_cast<float>(std::exp(static_cast<long double>(x)));
      ASSERT_NEAR(value, expected, std::abs(expected) * 1.2e-7) << x;
    }
  }
}

TEST(PortableMathTest, ExpAtItsEnds) {
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-0.0), 1);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(-kInfinity), 0);
  EXPECT_EQ(Exp(-1e300), 0);
  EXPECT_EQ(Exp(1e300), kInfinity);
  EXPECT_TRUE(std::isnan(Exp(kNaN)));
  EXPECT_EQ(Exp(709.8), kInfinity);
  EXPECT_NEAR(Exp(709.78) / 1.7928227943945155e308, 1, 1e-15);
  constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
  for (double x = -745.1; x < -708; x += 0.0371) {
    ASSERT_NEAR(Exp(x), static_cast<double>(std::exp(static_cast<long double>(x))), kSmallest) << x;
  }
}

TEST(PortableMathTest, LogIsWithinThreeUlp) {
  double worst = 0;
  for (double x = 1e-320; x < 1e308; x *= 1.0037) {
    worst = std::max(worst, Ulps(Log(x), std::log(static_cast<long double>(x))));
  }
  for (int i = 0; i < 400'000; ++i) {
    const double x = 0.3 + 4e-6 * i;
    if (x != 1) worst = std::max(worst, Ulps(Log(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 3);
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(Log(0), -kInfinity);
  EXPECT_EQ(Log(-0.0), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1)));
  EXPECT_TRUE(std::isnan(Log(kNaN)));
}

TEST(PortableMathTest, PowersOfRotaryBases) {
  for (const double base : {2.0, 10000.0, 500000.0, 1e6, 1e12}) {
    EXPECT_EQ(Pow(base, 0), 1);
    for (int i = 0; i < 256; ++i) {
      const double exponent = i / 256.0;
      const auto expected = static_cast<double>(std::pow(static_cast<long double>(base), exponent));
      ASSERT_NEAR(Pow(base, exponent), expected, 2e-14 * expected) << base << " " << exponent;
    }
  }
}

// Every bit, on any machine, by any compiler, with and without optimisation.
TEST(PortableMathTest, TheSameBitsEverywhere) {
  uint64_t sum = 1469598103934665603u;
  const auto add = [&sum](double value) {
    sum = (sum ^ std::bit_cast<uint64_t>(value)) * 1099511628211u;
  };
  for (int i = 0; i < 1'000'000; ++i) {
    add(Exp(-745.3 + i * 0.00145));
    add(Log(1e-320 + i * 0.00313));
    add(Pow(10000 + i, -static_cast<double>(i % 128) / 128));
  }
  EXPECT_EQ(sum, 0xda8cf89a54501a27u);
}

}  // namespace
}  // namespace tutti
