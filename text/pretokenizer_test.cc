#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/limits.h"
#include "text/split_pattern.h"

namespace tutti::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Pieces(std::string_view pattern, std::string_view text) {
  auto splitter = Pretokenizer::Create({pattern});
  EXPECT_TRUE(splitter.ok()) << splitter.status();
  std::vector<std::string> pieces;
  EXPECT_TRUE(splitter
                  ->Split(text,
                          [&](std::string_view p) {
                            pieces.emplace_back(p);
                            return absl::OkStatus();
                          })
                  .ok());
  return pieces;
}

std::vector<std::string> Qwen(std::string_view text) { return Pieces(kQwen2SplitPattern, text); }

TEST(PretokenizerTest, QwenSplit) {
  EXPECT_THAT(Qwen(""), ElementsAre());
  EXPECT_THAT(Qwen("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(Qwen("123"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(Qwen("don't I'LL"), ElementsAre("don", "'t", " I", "'LL"));
  EXPECT_THAT(Qwen("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(Qwen("a \n\n b"), ElementsAre("a", " \n\n", " b"));
  EXPECT_THAT(Qwen("x=1;\n"), ElementsAre("x", "=", "1", ";\n"));
  EXPECT_THAT(Qwen("end   "), ElementsAre("end", "   "));
  EXPECT_THAT(Qwen("'\u017f"), ElementsAre("'\u017f"));  // s without case is also the long s
}

TEST(PretokenizerTest, SpaceIsThatOfUnicodeNotOfPcre) {
  // U+180E has been no space since Unicode 6.3; U+0085 is one.
  EXPECT_THAT(Pieces(R"(\s+)", "a\u180e\u0085b"), ElementsAre("a\u180e", "\u0085", "b"));
  EXPECT_THAT(Pieces(R"(\S+)", "a\u180e\u0085b"), ElementsAre("a\u180e", "\u0085", "b"));
  EXPECT_THAT(Pieces(R"([^\S\n]+)", "a \nb"), ElementsAre("a", " ", "\nb"));
}

TEST(PretokenizerTest, LettersNewerThanTheLibraryAreLetters) {
  EXPECT_THAT(Pieces(R"(\p{L}+)", "\U00031350!\U0002ebf0"),
              ElementsAre("\U00031350", "!", "\U0002ebf0"));
  EXPECT_THAT(Pieces(R"([^\p{N}]+)", "a\U000116d0"), ElementsAre("a", "\U000116d0"));
}

TEST(PretokenizerTest, LaterSplitsCutThePiecesOfEarlierOnes) {
  auto splitter = Pretokenizer::Create({R"(\p{N}+)", R"(\p{L})"});
  ASSERT_TRUE(splitter.ok());
  std::vector<std::string> pieces;
  ASSERT_TRUE(splitter
                  ->Split("ab12-c",
                          [&](std::string_view p) {
                            pieces.emplace_back(p);
                            return absl::OkStatus();
                          })
                  .ok());
  EXPECT_THAT(pieces, ElementsAre("a", "b", "12", "-", "c"));
}

TEST(PretokenizerTest, WithoutSplitsTheTextIsOnePiece) {
  auto splitter = Pretokenizer::Create({});
  ASSERT_TRUE(splitter.ok());
  std::vector<std::string> pieces;
  ASSERT_TRUE(splitter
                  ->Split("a b",
                          [&](std::string_view p) {
                            pieces.emplace_back(p);
                            return absl::OkStatus();
                          })
                  .ok());
  EXPECT_THAT(pieces, ElementsAre("a b"));
}

// A text of megabytes that has too many tokens costs no more than those that are too many.
TEST(PretokenizerTest, AnErrorOfAPieceEndsTheSplit) {
  const auto by_pattern = Pretokenizer::Create({R"(\p{L}+)"});
  ASSERT_TRUE(by_pattern.ok());
  const Pretokenizer at_spaces = Pretokenizer::AtSpaces(Pretokenizer::Spaces::kEvery);
  for (const Pretokenizer* splitter : {&*by_pattern, &at_spaces}) {
    int pieces = 0;
    const absl::Status status = splitter->Split("a b c d e f", [&](std::string_view) {
      return ++pieces < 3 ? absl::OkStatus() : absl::OutOfRangeError("enough");
    });
    EXPECT_EQ(status, absl::OutOfRangeError("enough"));
    EXPECT_EQ(pieces, 3);
  }
}

TEST(PretokenizerTest, RefusesPatternsThatMatchNothing) {
  for (const std::string_view pattern : {"a*", "(a|b?)", "(?=a)", "\\s*"}) {
    EXPECT_THAT(std::string(Pretokenizer::Create({pattern}).status().message()),
                HasSubstr("empty string"))
        << pattern;
  }
}

TEST(SplitPatternTest, RefusesByName) {
  struct Case {
    std::string_view pattern, named;
  };
  for (const Case& c : std::vector<Case>{{"a.", "\".\""},
                                         {"^a", "\"^\""},
                                         {"a$", "\"$\""},
                                         {"\\w+", "\"\\w\""},
                                         {"a\\b", "\"\\b\""},
                                         {"\\h", "\"\\h\""},
                                         {"\\p{Han}", "\"\\p{Han}\""},
                                         {"\\P{L}", "\"\\P\""},
                                         {"\\pL", "\"\\pL\""},
                                         {"\\p{^L}", "\"\\p{^L}\""},
                                         {"(?<name>a)", "\"(?<\""},
                                         {"(?>a)", "\"(?>\""},
                                         {"(?s:a)", "\"(?s\""},
                                         {"(*UTF)a", "\"(*U\""},
                                         {"a{2}+", "\"{2}+\""},
                                         {"a{,2}", "\"{,2}\""},
                                         {"[a&&b]", "\"&&\""},
                                         {"[[:alpha:]]", "\"[:\""},
                                         {"a\\", "\"\\\""},
                                         {"\\x41", "\"\\x\""}}) {
    const auto result = TranslateSplitPattern(c.pattern);
    ASSERT_FALSE(result.ok()) << c.pattern;
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(std::string(c.named)));
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("at byte "));
  }
}

TEST(SplitPatternTest, RefusesWhatDoesNotCompileOrIsTooLong) {
  EXPECT_FALSE(Pretokenizer::Create({"(a"}).ok());
  EXPECT_FALSE(Pretokenizer::Create({"a{3,2}"}).ok());
  EXPECT_FALSE(Pretokenizer::Create({"[z-a]"}).ok());
  EXPECT_FALSE(Pretokenizer::Create({"\\p{Lz}"}).ok());
  EXPECT_FALSE(Pretokenizer::Create({"["}).ok());
  EXPECT_FALSE(TranslateSplitPattern(std::string(kSplitPatternBytesMax + 1, 'a')).ok());
  EXPECT_FALSE(TranslateSplitPattern("\xFF").ok());
}

// A pattern may backtrack without end; then encoding fails, it does not hang.
TEST(PretokenizerTest, BacktrackingIsBounded) {
  auto splitter = Pretokenizer::Create({"(a+)+b"});
  ASSERT_TRUE(splitter.ok()) << splitter.status();
  // The b at the end keeps PCRE2 from seeing at once that nothing can match.
  const std::string text = std::string(200, 'a') + "cb";
  const absl::Status status =
      splitter->Split(text, [](std::string_view) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace tutti::text
