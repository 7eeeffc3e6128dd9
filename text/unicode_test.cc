#include "text/unicode.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace tutti::text {
namespace {

// Each unit as a letter: c character, x invalid, i incomplete, with its length.
std::string Units(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(bytes);
    out += unit.kind == Utf8Unit::kCharacter ? 'c' : unit.kind == Utf8Unit::kInvalid ? 'x' : 'i';
    out += static_cast<char>('0' + unit.length);
    bytes.remove_prefix(unit.length);
  }
  return out;
}

TEST(Utf8Test, WellFormedCharactersOfEachLength) {
  EXPECT_EQ(Units("a"), "c1");
  EXPECT_EQ(Units("\xC2\x80"), "c2");
  EXPECT_EQ(Units("\xE0\xA0\x80\xEF\xBF\xBF"), "c3c3");
  EXPECT_EQ(Units("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"), "c4c4");
  EXPECT_EQ(FirstUtf8Unit("\xF0\x9F\x99\x82").code_point, U'\U0001F642');
}

// The table of "U+FFFD substitution of maximal subparts" of the Unicode standard, section 3.9.
TEST(Utf8Test, IllFormedBytesAreCutAtMaximalSubparts) {
  EXPECT_EQ(Units("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "x1x1x1x1x1x1x1x1c1");
  EXPECT_EQ(Units("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "x1x1x1x1x1x1x1x1c1");
  EXPECT_EQ(Units("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "x1x1x1x1x1c1x1x1c1");
  EXPECT_EQ(Units("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "x2x1x3x2c1");
}

TEST(Utf8Test, EndInsideACharacterIsIncomplete) {
  EXPECT_EQ(Units("\xC3"), "i1");
  EXPECT_EQ(Units("a\xE6\xA0"), "c1i2");
  EXPECT_EQ(Units("\xF0\x9F\x99"), "i3");
  EXPECT_EQ(Units("\xF0\x80"), "x1x1");
}

TEST(Utf8Test, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8("plain \xC3\xA9"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("ab\xFFz"), 2u);
  EXPECT_EQ(FindInvalidUtf8("ab\xE2\x82"), 2u);
  EXPECT_EQ(FindInvalidUtf8("\xED\xA0\x80"), 0u);  // a surrogate
}

TEST(Utf8Test, AppendReadsBack) {
  for (char32_t c = 0; c < 0x110000; c += c < 0x1000 ? 1 : 97) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, &text);
    const Utf8Unit unit = FirstUtf8Unit(text);
    ASSERT_EQ(unit.kind, Utf8Unit::kCharacter);
    ASSERT_EQ(unit.code_point, c);
    ASSERT_EQ(unit.length, static_cast<int>(text.size()));
  }
}

TEST(NfcTest, ComposesAndOrders) {
  EXPECT_EQ(NormalizeNfc("cafe\u0301"), "caf\u00e9");
  EXPECT_EQ(NormalizeNfc("A\u030a"), "\u00c5");
  EXPECT_EQ(NormalizeNfc("\u212b"), "\u00c5");         // the unit angstrom
  EXPECT_EQ(NormalizeNfc("e\u0302\u0323"), "\u1ec7");  // marks in either order
  EXPECT_EQ(NormalizeNfc("e\u0323\u0302"), "\u1ec7");
  EXPECT_EQ(NormalizeNfc("\u1100\u1161\u11a8"), "\uac01");  // Hangul
  EXPECT_EQ(NormalizeNfc("\u0958"), "\u0915\u093c");        // excluded from composition
  EXPECT_EQ(NormalizeNfc("\ufb01"), "\ufb01");              // compatibility is another form
  EXPECT_EQ(NormalizeNfc("plain, \u00e9, \u02ff"), "plain, \u00e9, \u02ff");
  EXPECT_EQ(NormalizeNfc(""), "");
}

// nfc_test.py compares all of them with others'.
TEST(NfcTest, WhatStandsAloneStaysAndSeparatesItsNeighbours) {
  // A vowel that is no final consonant, after a syllable without one.
  EXPECT_EQ(NormalizeNfc("\uc694\u11a7"), "\uc694\u11a7");
  EXPECT_EQ(NormalizeNfc("\u1112\u1161\u11a7\u11ab"), "\ud558\u11a7\u11ab");
  // A mark of a later version.
  EXPECT_EQ(NormalizeNfc("\ua82c\u0307"), "\ua82c\u0307");
  EXPECT_EQ(NormalizeNfc("e\ua82c\u0301"), "e\ua82c\u0301");
  EXPECT_EQ(NormalizeNfc("e\u0301\ua82c\u0301e\u0301"), "\u00e9\ua82c\u0301\u00e9");
}

TEST(NfcTest, IsIdempotent) {
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int64_t n = random.Between(0, 12); n > 0; --n) {
      const bool mark = random.Chance(0.5);
      auto c =
          static_cast<char32_t>(mark ? random.Between(0x300, 0x36F) : random.Between(0, 0x10FFFF));
      if (c >= 0xD800 && c < 0xE000) c = 'e';
      AppendUtf8(c, &text);
    }
    const std::string once = NormalizeNfc(text);
    ASSERT_EQ(NormalizeNfc(once), once) << "case " << i;
  }
}

TEST(NfcTest, AMillionMarksTakeNoLongerThanAMillionLetters) {
  Random random(5);
  std::string text = "e";
  for (int i = 0; i < 1'000'000; ++i) {
    AppendUtf8(static_cast<char32_t>(random.Between(0x300, 0x36F)), &text);
  }
  // Quadratic would be minutes, beyond the test's time limit.
  EXPECT_FALSE(NormalizeNfc(text).empty());
}

TEST(CharacterTest, SpaceAndPrintableAreThoseOfPython) {
  for (const char32_t c :
       {0x09, 0x0B, 0x1C, 0x1F, 0x20, 0x85, 0xA0, 0x1680, 0x2003, 0x2029, 0x3000}) {
    EXPECT_TRUE(IsPythonSpace(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {0x00, 0x08, 0x21, 0x180E, 0x200B, 0xFEFF}) {
    EXPECT_FALSE(IsPythonSpace(c)) << static_cast<uint32_t>(c);
  }
  EXPECT_TRUE(IsPrintable(' '));
  EXPECT_TRUE(IsPrintable(0xE9));
  for (const char32_t c : {0x0A, 0x7F, 0xA0, 0xAD, 0x200B, 0xE0001, 0x378})
    EXPECT_FALSE(IsPrintable(c));
}

// Each with what tokenizers 0.23 makes of it.
TEST(NfcTest, MarksAfterUnicode9AreOrdinary) {
  const auto reordered = [](const std::string& mark) {
    return NormalizeNfc("q\u0315" + mark) != "q\u0315" + mark;
  };
  EXPECT_TRUE(reordered("\u0323"));
  EXPECT_FALSE(reordered("\u1ABF"));
  EXPECT_FALSE(reordered("\u0899"));
  EXPECT_FALSE(reordered("\U0001E4EE"));
  EXPECT_EQ(NormalizeNfc("\U00011935\U00011930"), "\U00011935\U00011930");
  EXPECT_EQ(NormalizeNfc("a\u0300\u1ABFe\u0301"), "\u00E0\u1ABF\u00E9");
}

}  // namespace
}  // namespace tutti::text
