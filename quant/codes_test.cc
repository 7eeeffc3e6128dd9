#include "quant/codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/float_formats.h"

namespace tutti::quant {
namespace {

// By the definition of the formats, another way than the code.
TEST(CodesTest, E4m3) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4m3ToF32(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    EXPECT_EQ(value, static_cast<float>(code < 128 ? magnitude : -magnitude)) << code;
    EXPECT_EQ(kernels::RoundTo(DType::kBF16, value), value) << "exact in bf16";
    EXPECT_EQ(kernels::RoundTo(DType::kF16, value), value) << "and in f16";
  }
  EXPECT_EQ(E4m3ToF32(0x7E), 448);
}

TEST(CodesTest, E2m1AndE8m0) {
  EXPECT_EQ(E2m1ToF32(0x7), 6);
  EXPECT_EQ(E2m1ToF32(0x9), -0.5f);
  EXPECT_TRUE(std::signbit(E2m1ToF32(0x8)));
  EXPECT_EQ(E8m0ToF32(127), 1);
  EXPECT_EQ(E8m0ToF32(0), 0x1p-127f);
  EXPECT_EQ(E8m0ToF32(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(E8m0ToF32(255)));
}

// So a matrix in MXFP4 or NVFP4 expands into bf16 without rounding.
TEST(CodesTest, ProductsOfFourBitCodesAndTheirScalesAreExactInBf16) {
  for (uint8_t code = 0; code < 16; ++code) {
    for (int scale = 1; scale < 0x7F; ++scale) {
      const float product = E2m1ToF32(code) * E4m3ToF32(static_cast<uint8_t>(scale));
      EXPECT_EQ(kernels::RoundTo(DType::kBF16, product), product);
    }
  }
}

}  // namespace
}  // namespace tutti::quant
