#include "client/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FormatCount, GroupsDigits) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
}

TEST(FormatSeconds, PicksTheUnitThatReadsBest) {
  EXPECT_EQ(FormatSeconds(0.00081), "0.8 ms");
  EXPECT_EQ(FormatSeconds(0.0123), "12 ms");
  EXPECT_EQ(FormatSeconds(0.9996), "1.0 s");
  EXPECT_EQ(FormatSeconds(3.44), "3.4 s");
  EXPECT_EQ(FormatSeconds(59.96), "1 min 0 s");
  EXPECT_EQ(FormatSeconds(125), "2 min 5 s");
  EXPECT_EQ(FormatSeconds(3600 * 3 + 12 * 60), "3 h 12 min");
  EXPECT_EQ(FormatSeconds(-1), "-");
}

TEST(ParseDevices, ExpandsCounts) {
  EXPECT_THAT(*ParseDevices("2x24GiB,1x48GiB"),
              ElementsAre(int64_t{24} << 30, int64_t{24} << 30, int64_t{48} << 30));
  EXPECT_THAT(*ParseDevices("512MiB"), ElementsAre(512 << 20));
  EXPECT_THAT(*ParseDevices("1x1KiB, 2X2KiB"), ElementsAre(1024, 2048, 2048));
  EXPECT_EQ(ParseDevices("16384x1GiB")->size(), 16384u);
}

TEST(ParseDevices, RefusesByNamingThePart) {
  EXPECT_THAT(ParseDevices("2x24GiB,fourx48GiB").status().message(), HasSubstr("four"));
  EXPECT_THAT(ParseDevices("0x24GiB").status().message(), HasSubstr("\"0\""));
  EXPECT_THAT(ParseDevices("2x24Gibberish").status().message(), HasSubstr("Gibberish"));
  EXPECT_THAT(ParseDevices("16384x1GiB,1GiB").status().message(), HasSubstr("more than 16384"));
  EXPECT_THAT(ParseDevices("2147483647x1GiB").status().message(), HasSubstr("more than 16384"));
  for (const char* text : {"", ",", "2x", "x", "1GiB,", "1x0GiB", "-1x1GiB"}) {
    EXPECT_FALSE(ParseDevices(text).ok()) << text;
  }
}

TEST(ParseTokenIds, TakesCommasAndSpaces) {
  EXPECT_THAT(*ParseTokenIds("1,2, 3"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*ParseTokenIds("0"), ElementsAre(0));
  for (const char* text : {"", " , ", "1,-2", "1,x", "2147483648", "1.5"}) {
    EXPECT_FALSE(ParseTokenIds(text).ok()) << text;
  }
}

TEST(Table, AlignsByWhatATerminalShows) {
  Table table({{"stage", Table::Align::kLeft}, {"bytes", Table::Align::kRight}});
  table.AddRow({"0", "12"});
  table.AddRow({"größe", "1234567"});
  EXPECT_EQ(table.ToString(1),
            " stage    bytes\n"
            " 0           12\n"
            " größe  1234567\n");
}

TEST(Table, OfMoreColumnsThanAScreenIsToldInSeveral) {
  Table table({{"stage", Table::Align::kLeft}, {"worker", Table::Align::kLeft}, {"bytes"}, {"x"}});
  table.AddRow({"0", "worker-0", "1234567", "1"});
  table.AddRow({"1", "w", "1", "22"});
  EXPECT_EQ(table.ToString(2, 18),
            "  stage  worker\n"
            "  0      worker-0\n"
            "  1      w\n"
            "  stage    bytes\n"
            "  0      1234567\n"
            "  1            1\n"
            "  stage   x\n"
            "  0       1\n"
            "  1      22\n");
  Table wide({{"s"}, {"worker", Table::Align::kLeft}});
  wide.AddRow({"0", "größe-und-mehr"});
  EXPECT_EQ(wide.ToString(0, 9), "s  worker\n0  größe…\n");
}

TEST(Wrap, BreaksLinesBetweenWords) {
  EXPECT_EQ(Wrap("one two three", 20), "one two three");
  EXPECT_EQ(Wrap("  one two three four\nfive\n", 12), "  one two\n      three\n      four\nfive\n");
  EXPECT_EQ(Wrap("abcdefghijkl", 8), "abcdefgh\n    ijkl");
  EXPECT_EQ(Wrap("größe größe größe", 11), "größe größe\n    größe");
  EXPECT_EQ(Wrap("\x1b[32mgreen\x1b[0m and red", 9), "\x1b[32mgreen\x1b[0m and\n    red");
  EXPECT_EQ(Wrap("", 8), "");
}

TEST(OneLine, LeavesNothingThatSteersATerminal) {
  EXPECT_EQ(OneLine("a\nb\tc"), "a b c");
  EXPECT_EQ(OneLine("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(OneLine("\xc2\x9b"
                    "31m"),
            "\\x9b31m");
  EXPECT_EQ(OneLine("héllo"), "héllo");
}

TEST(TerminalFilter, SeesControlCharactersCutInTwo) {
  TerminalFilter filter;
  EXPECT_EQ(filter.Filter("a\x1b[2Jb\r\n"), "a[2Jb\n");
  EXPECT_EQ(filter.Filter("x\xc2"), "x");
  EXPECT_EQ(filter.Filter("\x9bz"), "z");
  EXPECT_EQ(filter.Filter("caf\xc3"), "caf\xc3");
  EXPECT_EQ(filter.Filter("\xa9 \xc2"), "\xa9 ");
  EXPECT_EQ(filter.Filter("\xa9"), "\xc2\xa9");
}

}  // namespace
}  // namespace tutti::client
