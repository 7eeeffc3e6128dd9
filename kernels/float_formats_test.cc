#include "kernels/float_formats.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace tutti::kernels {
namespace {

TEST(FloatFormatsTest, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(F16ToF32(half))) {
      EXPECT_EQ(F32ToF16(F16ToF32(half)), half | 0x200);
    } else {
      EXPECT_EQ(F32ToF16(F16ToF32(half)), half);
    }
    if (std::isnan(Bf16ToF32(half))) {
      EXPECT_EQ(F32ToBf16(Bf16ToF32(half)), half | 0x40);
    } else {
      EXPECT_EQ(F32ToBf16(Bf16ToF32(half)), half);
    }
  }
}

// The nearest half to `value` by search, ties to the even one.
uint16_t NearestHalf(float value) {
  uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double distance =
        std::abs(static_cast<double>(F16ToF32(static_cast<uint16_t>(bits))) - value);
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0)) {
      best = static_cast<uint16_t>(bits);
      best_distance = distance;
    }
  }
  return best;
}

TEST(FloatFormatsTest, RoundsToTheNearestEven) {
  for (float value : {1.0f / 3, 1.00048828125f, 1.00146484375f, 5.9e-8f, 2.98e-8f, 2.9802322e-8f,
                      8.9406967e-8f, 6.1e-5f, 6.1005e-5f, 65503.9f, 0.1f, 1234.5f}) {
    EXPECT_EQ(F32ToF16(value), NearestHalf(value)) << value;
    EXPECT_EQ(F32ToF16(-value), NearestHalf(value) | 0x8000) << value;
  }
  EXPECT_EQ(F32ToF16(65519.99f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToBf16(1.00390625f), 0x3f80);  // half way: to even, down
  EXPECT_EQ(F32ToBf16(1.01171875f), 0x3f82);  // half way: to even, up
  EXPECT_EQ(F32ToBf16(3.4e38f), 0x7f80);
}

TEST(FloatFormatsTest, HalvesHaveTheirDefinedValues) {
  EXPECT_EQ(F16ToF32(0x3c00), 1.0f);
  EXPECT_EQ(F16ToF32(0x0001), 0x1p-24f);
  EXPECT_EQ(F16ToF32(0x03ff), 0x1.ff8p-15f);
  EXPECT_EQ(F16ToF32(0xfbff), -65504.0f);
  EXPECT_TRUE(std::signbit(F16ToF32(0x8000)));
  EXPECT_EQ(Bf16ToF32(0x3fc0), 1.5f);
}

}  // namespace
}  // namespace tutti::kernels
