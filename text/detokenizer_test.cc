#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "text/text_testing.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

// Python's bytes.decode("utf-8", errors="replace") over everything at once.
std::string DecodeWhole(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(bytes);
    text += unit.kind == Utf8Unit::kCharacter ? std::string(bytes.substr(0, unit.length))
                                              : std::string(kReplacementCharacter);
    bytes.remove_prefix(unit.length);
  }
  return text;
}

TEST(DetokenizerTest, HoldsBackHalfACharacter) {
  const auto tokenizer = TinyTokenizer();
  Detokenizer detokenizer(tokenizer.get(), true);
  EXPECT_EQ(detokenizer.Push(kTinyThe), "the");
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Push(0x9F), "");
  EXPECT_EQ(detokenizer.Push(0x99), "");
  EXPECT_EQ(detokenizer.Push(0x82), "\U0001F642");
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(DetokenizerTest, InvalidBytesBecomeReplacementCharacters) {
  const auto tokenizer = TinyTokenizer();
  Detokenizer detokenizer(tokenizer.get(), true);
  EXPECT_EQ(detokenizer.Push(0xFF), "\uFFFD");
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push(0x82), "");
  EXPECT_EQ(detokenizer.Push('a'), "\uFFFDa");  // both held bytes are one
  EXPECT_EQ(detokenizer.Push(0xC3), "");
  EXPECT_EQ(detokenizer.Finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.Finish(), "");
  EXPECT_EQ(detokenizer.Push('b'), "b");
}

TEST(DetokenizerTest, SpecialTokensAreSkippedOrSpelled) {
  const auto tokenizer = TinyTokenizer();
  Detokenizer skipping(tokenizer.get(), true), spelling(tokenizer.get(), false);
  EXPECT_EQ(skipping.Push(kTinyEnd), "");
  EXPECT_EQ(spelling.Push(kTinyEnd), "<|end|>");
  EXPECT_EQ(skipping.Push(kTinyThink), "<think>");
  EXPECT_EQ(spelling.Push(kTinyThink), "<think>");
}

TEST(DetokenizerTest, IdsThatAreNoTokensStandForNothing) {
  const auto tokenizer = TinyTokenizer();
  Detokenizer detokenizer(tokenizer.get(), false);
  EXPECT_EQ(detokenizer.Push(0xC3), "");
  for (const TokenId id : {-1, 299, 100000, 1 << 30}) EXPECT_EQ(detokenizer.Push(id), "");
  EXPECT_EQ(detokenizer.Push(0xA9), "\u00e9");
}

TEST(DetokenizerTest, PiecesJoinedAreTheWholeAndEachIsValid) {
  const auto tokenizer = TinyTokenizer();
  Random random(31);
  for (int i = 0; i < 20000; ++i) {
    Detokenizer detokenizer(tokenizer.get(), false);
    std::string bytes, text;
    for (int64_t n = random.Between(1, 12); n > 0; --n) {
      // Mostly bytes that begin or continue characters.
      const auto id = static_cast<TokenId>(random.Chance(0.2)   ? random.Between(250, 303)
                                           : random.Chance(0.5) ? random.Between(0x80, 0xBF)
                                                                : random.Between(0xC0, 0xFF));
      bytes += tokenizer->TokenText(id).value_or("");
      const std::string piece = detokenizer.Push(id);
      ASSERT_FALSE(FindInvalidUtf8(piece).has_value());
      text += piece;
    }
    text += detokenizer.Finish();
    ASSERT_EQ(text, DecodeWhole(bytes)) << "case " << i;
  }
}

}  // namespace
}  // namespace tutti::text
