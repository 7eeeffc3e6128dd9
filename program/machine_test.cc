// Amounts of memory, and those of this machine.
#include "program/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "base/byte_size.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(ParseBytes, KnowsDecimalAndBinaryUnits) {
  EXPECT_EQ(*ParseBytes("24GiB"), int64_t{24} << 30);
  EXPECT_EQ(*ParseBytes("24gib"), int64_t{24} << 30);
  EXPECT_EQ(*ParseBytes("24 G"), int64_t{24} << 30);
  EXPECT_EQ(*ParseBytes("24GB"), 24'000'000'000);
  EXPECT_EQ(*ParseBytes("1.5MiB"), 1536 * 1024);
  EXPECT_EQ(*ParseBytes(" 512 MiB "), 512 << 20);
  EXPECT_EQ(*ParseBytes("65536"), 65536);
  EXPECT_EQ(*ParseBytes("7B"), 7);
  EXPECT_EQ(*ParseBytes("2kB"), 2000);
  EXPECT_EQ(*ParseBytes("2KiB"), 2048);
  EXPECT_EQ(*ParseBytes("0"), 0);
}

TEST(ParseBytes, RefusesByNamingWhatIsWrong) {
  EXPECT_THAT(ParseBytes("24GiBs").status().message(), HasSubstr("unknown unit \"GiBs\""));
  EXPECT_THAT(ParseBytes("24 parsecs").status().message(), HasSubstr("\"parsecs\""));
  for (const char* text : {"", "GiB", "-1GiB", "1.2.3GiB", ".", "nan", "inf", "0x10", "1e3GiB"}) {
    EXPECT_EQ(ParseBytes(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(ParseBytes("9000000PiB").status().message(), HasSubstr("too large"));
  EXPECT_THAT(ParseBytes("9223372036854775808").status().message(), HasSubstr("too large"));
  EXPECT_THAT(ParseBytes(std::string(400, '9')).status().message(), HasSubstr("too large"));
}

TEST(FormatBytes, PicksTheUnitThatReadsBest) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(int64_t{24} << 30), "24.0 GiB");
  EXPECT_EQ(FormatBytes(-2048), "-2.0 KiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

TEST(Machine, ReadsMemAvailable) {
  EXPECT_EQ(ParseMemAvailable("MemTotal:  100 kB\nMemAvailable:   24 kB\n"), 24 * 1024);
  EXPECT_EQ(ParseMemAvailable("MemTotal:  100 kB\n"), 0);
  EXPECT_GT(AvailableMemoryBytes(), 0);
  EXPECT_GE(CpuCount(), 1);
}

TEST(Machine, TimeForPartOfACpuIsTimeForNone) {
  EXPECT_EQ(CpusOf(8, std::nullopt), 8);
  EXPECT_EQ(CpusOf(8, 2.0), 2);
  EXPECT_EQ(CpusOf(8, 1.5), 1);
  EXPECT_EQ(CpusOf(8, 0.25), 1);
  EXPECT_EQ(CpusOf(2, 16.0), 2);
  EXPECT_EQ(CpusOf(0, 1e300), 1);
}

}  // namespace
}  // namespace tutti
