#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "text/ids_testing.h"
#include "text/limits.h"
#include "text/text_testing.h"
#include "text/unicode.h"

namespace tutti::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Text(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += *tokenizer.TokenText(id);
  return text;
}

TEST(TokenizerTest, MergesWithinPieces) {
  const auto tokenizer = TinyTokenizer();
  EXPECT_THAT(Ids(*tokenizer, ""), ElementsAre());
  EXPECT_THAT(Ids(*tokenizer, "the the"), ElementsAre(kTinyThe, kTinySpaceThe));
  EXPECT_THAT(Ids(*tokenizer, "t he"), ElementsAre('t', ' ', kTinyHe));
  EXPECT_THAT(Ids(*tokenizer, "t\the"), ElementsAre('t', '\t', kTinyHe));
}

TEST(TokenizerTest, NormalizesToNfcBeforeSplitting) {
  const auto tokenizer = TinyTokenizer();
  EXPECT_EQ(Ids(*tokenizer, "e\u0301"), Ids(*tokenizer, "\u00e9"));
  EXPECT_THAT(Ids(*tokenizer, "\u00e9"), ElementsAre(0xC3, 0xA9));
}

TEST(TokenizerTest, SpecialTokensAreNeverTakenFromUserText) {
  const auto tokenizer = TinyTokenizer();
  EXPECT_THAT(Ids(*tokenizer, "<|end|>"), ElementsAre('<', '|', 'e', 'n', 'd', '|', '>'));
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"<|end|>", true}}),
              ElementsAre('<', '|', 'e', 'n', 'd', '|', '>'));
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"<|end|>", false}}), ElementsAre(kTinyEnd));
}

TEST(TokenizerTest, AddedTokensThatAreNotSpecialAreTakenFromAnyText) {
  const auto tokenizer = TinyTokenizer();
  EXPECT_THAT(Ids(*tokenizer, "a<think>the"), ElementsAre('a', kTinyThink, kTinyThe));
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"<thi", true}, {"nk>", false}}),
              ElementsAre(kTinyThink));
}

TEST(TokenizerTest, ASpecialTokenMustLieInTheTemplateEntirely) {
  const auto tokenizer = TinyTokenizer();
  const std::vector<TokenId> spelled = {'<', '|', 'e', 'n', 'd', '|', '>'};
  EXPECT_EQ(Ids(*tokenizer, std::vector<Segment>{{"<|en", false}, {"d|>", true}}), spelled);
  EXPECT_EQ(Ids(*tokenizer, std::vector<Segment>{{"<|en", true}, {"d|>", false}}), spelled);
  EXPECT_EQ(Ids(*tokenizer, std::vector<Segment>{{"<|", false}, {"end", true}, {"|>", false}}),
            spelled);
  // Cut within the template's own text it stays one.
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"<|en", false}, {"", true}, {"d|>", false}}),
              ElementsAre(kTinyEnd));
}

TEST(TokenizerTest, OfSeveralAddedTokensTheLongestThatIsAllowedWins) {
  const auto tokenizer = TinyTokenizer();
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"<|end|>of", false}}), ElementsAre(kTinyEndOf));
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"<|end|>", false}, {"of", true}}),
              ElementsAre(kTinyEnd, 'o', 'f'));
}

// Segments are not token boundaries: only specials are.
TEST(TokenizerTest, SegmentsAreSplitAndMergedAsOneText) {
  const auto tokenizer = TinyTokenizer();
  EXPECT_THAT(Ids(*tokenizer,
                  std::vector<Segment>{{"t", false}, {"h", true}, {"e t", false}, {"he", true}}),
              ElementsAre(kTinyThe, kTinySpaceThe));
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"e", false}, {"\u0301", true}}),
              ElementsAre(0xC3, 0xA9));
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{{"t<|end|>", false}, {"he", true}}),
              ElementsAre('t', kTinyEnd, kTinyHe));
  EXPECT_THAT(Ids(*tokenizer, std::vector<Segment>{}), ElementsAre());
}

TEST(TokenizerTest, InvalidUtf8IsRefusedWithItsOffset) {
  const auto tokenizer = TinyTokenizer();
  const auto status = tokenizer->Encode("abc\xFFz").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("byte 3"));
  const std::vector<Segment> segments = {{"abc", false}, {"d\xC3", true}, {"\xA9", true}};
  EXPECT_THAT(std::string(tokenizer->EncodeSegments(segments).status().message()),
              HasSubstr("byte 4"));
}

// A prompt that a client has rendered by the model's chat template.
TEST(TokenizerTest, SpecialTokensAreReadInAPromptAndNotInAUsersText) {
  const auto tokenizer = TinyTokenizer();
  const std::string text = "<|end|>hello<|end|>";
  const std::vector<Segment> written = {{text, /*from_user=*/false}};
  EXPECT_EQ(*tokenizer->EncodePrompt(text), *tokenizer->EncodeSegments(written));
  EXPECT_EQ(tokenizer->EncodePrompt(text)->front(), *tokenizer->SpecialId("<|end|>"));
  EXPECT_EQ(*tokenizer->EncodePrompt(text, {.splits_special = true}), *tokenizer->Encode(text));
  EXPECT_GT(tokenizer->Encode(text)->size(), tokenizer->EncodePrompt(text)->size());
}

// As AddedVocabulary of the tokenizers library finds them.
TEST(TokenizerTest, AddedTokensMayTakeBlanksAndMayStandAlone) {
  TokenizerSpec spec = TinySpec();
  spec.added_tokens = {
      {.content = "<l>", .id = 310, .special = true, .lstrip = true},
      {.content = "<r>", .id = 311, .special = true, .rstrip = true},
      {.content = "word", .id = 312, .single_word = true},
      {.content = "<n>", .id = 313, .normalized = true, .lstrip = true, .rstrip = true}};
  const auto tokenizer = Tokenizer::Create(spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = [&](std::string_view text) { return *(*tokenizer)->EncodePrompt(text); };
  EXPECT_THAT(ids("a \u3000\t<l> b"), ElementsAre('a', 310, ' ', 'b'));
  EXPECT_THAT(ids("a <r> \n\u2003b"), ElementsAre('a', ' ', 311, 'b'));
  EXPECT_THAT(ids("  <r> <l>"), ElementsAre(' ', ' ', 311, 310)) << "nothing twice";
  EXPECT_THAT(ids("a <n>\x1f<n> "), ElementsAre('a', 313, 0x1F, 313));
  EXPECT_THAT(ids("word word. (word)"), ElementsAre(312, ' ', 312, '.', ' ', '(', 312, ')'));
  for (const std::string_view inside : {"words", "sword", "\u00e9word", "word_", "word\u0301"}) {
    EXPECT_THAT(ids(inside), testing::Not(testing::Contains(312))) << inside;
  }
}

TEST(TokenizerTest, TextBeyondTheLimitIsRefused) {
  const auto tokenizer = TinyTokenizer();
  const std::vector<Segment> segments = {{std::string(kEncodeBytesMax, 'a'), true}, {"b", false}};
  const auto status = tokenizer->EncodeSegments(segments).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

TEST(TokenizerTest, TextOfMoreIdsThanWantedIsRefused) {
  const auto tokenizer = TinyTokenizer();
  for (const std::string& text :
       {std::string("hello hello, you"), std::string(3000, 'h'), std::string("<think>h<think>h")}) {
    const std::vector<TokenId> ids = Ids(*tokenizer, text);
    const auto size = static_cast<int64_t>(ids.size());
    const auto enough = tokenizer->EncodePrompt(text, size);
    ASSERT_TRUE(enough.ok()) << enough.status();
    EXPECT_EQ(*enough, ids);
    for (const int64_t fewer : {size - 1, size / 2, int64_t{0}}) {
      EXPECT_TRUE(absl::IsOutOfRange(tokenizer->EncodePrompt(text, fewer).status()))
          << fewer << " of " << size;
    }
  }
}

TEST(TokenizerTest, TokensByIdAndByName) {
  const auto tokenizer = TinyTokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), kTinyEndOf + 1);
  EXPECT_EQ(tokenizer->TokenBytes(kTinySpaceThe), " the");
  EXPECT_EQ(tokenizer->TokenBytes(0xC3), "\xC3");
  EXPECT_EQ(tokenizer->TokenBytes(kTinyThink), "<think>");
  EXPECT_EQ(tokenizer->TokenBytes(kTinyEnd), std::nullopt);
  EXPECT_EQ(tokenizer->TokenText(kTinyEnd), "<|end|>");
  for (const TokenId id : {-1, kTinyHe + 1, kTinyEndOf + 1, 1 << 30}) {
    EXPECT_EQ(tokenizer->TokenText(id), std::nullopt) << id;
    EXPECT_FALSE(tokenizer->IsSpecial(id));
  }
  EXPECT_TRUE(tokenizer->IsSpecial(kTinyEnd));
  EXPECT_FALSE(tokenizer->IsSpecial(kTinyThink));
  EXPECT_EQ(tokenizer->SpecialId("<|end|>"), kTinyEnd);
  EXPECT_EQ(tokenizer->SpecialId("<think>"), std::nullopt);
  EXPECT_EQ(tokenizer->SpecialId("the"), std::nullopt);
}

TEST(TokenizerTest, NormalizedAddedTokensAreFoundAfterNormalization) {
  TokenizerSpec spec = TinySpec();
  spec.added_tokens.push_back({.content = "\u00c5x", .id = 310, .normalized = true});
  auto tokenizer = Tokenizer::Create(spec);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Ids(**tokenizer, "tA\u030ax!"), ElementsAre('t', 310, '!'));
  EXPECT_THAT(Ids(**tokenizer, "\u212bx"), ElementsAre(310));
}

TEST(TokenizerTest, RandomTextComesBackNormalized) {
  const auto tokenizer = TinyTokenizer();
  Random random(17);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (int64_t n = random.Between(0, 20); n > 0; --n) {
      auto c = static_cast<char32_t>(random.Chance(0.6) ? random.Between(1, 0x7F)
                                                        : random.Between(0x80, 0x10FFFF));
      if (c >= 0xD800 && c < 0xE000) c = 0x300;
      AppendUtf8(c, &text);
    }
    if (text.find("<think>") != std::string::npos) continue;
    ASSERT_EQ(Text(*tokenizer, Ids(*tokenizer, text)), NormalizeNfc(text)) << "case " << i;
  }
}

// Text that spells no special token gives the same ids however it is cut into segments.
TEST(TokenizerTest, CutsDoNotChangeIds) {
  const auto tokenizer = TinyTokenizer();
  Random random(23);
  static constexpr std::string_view kPieces[] = {"the",     " the",    "t", "h",  "<|en", "d|>",
                                                 "<think>", "e\u0301", " ", "\n", "12"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int64_t n = random.Between(1, 12); n > 0; --n) text += kPieces[random.Between(0, 10)];
    std::vector<Segment> segments;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.size(), at + static_cast<size_t>(random.Between(1, 6)));
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
      segments.push_back({text.substr(at, end - at), random.Chance(0.5)});
      at = end;
    }
    const bool spells_special = text.find("<|end|>") != std::string::npos;
    if (!spells_special) {
      ASSERT_EQ(Ids(*tokenizer, segments), Ids(*tokenizer, text)) << text;
    }
    for (Segment& segment : segments) segment.from_user = false;
    ASSERT_EQ(Ids(*tokenizer, segments), Ids(*tokenizer, std::vector<Segment>{{text, false}}))
        << text;
  }
}

TEST(TokenizerTest, ThreadsShareOne) {
  const auto tokenizer = TinyTokenizer();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "the e\u0301 12 <think> \n";
  const std::vector<TokenId> expected = Ids(*tokenizer, text);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) EXPECT_EQ(*tokenizer->Encode(text), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti::text
