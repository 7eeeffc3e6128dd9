#include "base/speed_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(SpeedTextTest, Reads) {
  EXPECT_DOUBLE_EQ(*ParseByteRate("900GB/s", ""), 900e9);
  EXPECT_DOUBLE_EQ(*ParseByteRate(" 25 Gbit/s", ""), 25e9 / 8);
  EXPECT_DOUBLE_EQ(*ParseByteRate("12345b/s", ""), 12345);
  EXPECT_DOUBLE_EQ(*ParseFlopRate("312Tflop/s"), 312e12);
  EXPECT_DOUBLE_EQ(*ParseFlopRate("1.5 GFLOPS"), 1.5e9);
  EXPECT_DOUBLE_EQ(*ParseShortTime("20us", ""), 20e-6);
  EXPECT_DOUBLE_EQ(*ParseShortTime("1.5 ms", ""), 1.5e-3);
}

TEST(SpeedTextTest, NamesWhatIsWrong) {
  for (const char* text : {"", "fast", "-1GB/s", "0GB/s", "1e400GB/s", "nan", "GB/s"}) {
    EXPECT_FALSE(ParseByteRate(text, "900GB/s").ok()) << text;
  }
  EXPECT_THAT(ParseByteRate("9GX/s", "900GB/s").status().ToString(),
              HasSubstr("unknown unit in \"9GX/s\"; write for example 900GB/s"));
  EXPECT_THAT(ParseFlopRate("1Tops").status().ToString(), HasSubstr("unknown unit"));
  EXPECT_THAT(ParseShortTime("5", "5us").status().ToString(), HasSubstr("unknown unit"));
}

}  // namespace
}  // namespace tutti
