#include "grammar/preface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_testing.h"

namespace tutti::grammar {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string After(const Preface& preface, std::string_view text) {
  return Judge(SourceKind::kChoice, R"(["yes","no"])", text, Whitespace::kCompact, preface);
}

TEST(PrefaceTest, FreeTextToItsClose) {
  const Preface begun = {"", "</think>"};
  EXPECT_EQ(After(begun, ""), "part");
  EXPECT_EQ(After(begun, "yes"), "part") << "is still thought";
  EXPECT_EQ(After(begun, "yes, é </think"), "part");
  EXPECT_EQ(After(begun, "</think>yes"), "yes");
  EXPECT_EQ(After(begun, "a </</think>\n\n no"), "yes");
  EXPECT_EQ(After(begun, "</think>" + std::string(24, ' ') + "no"), "yes");
  EXPECT_EQ(After(begun, "</think>" + std::string(25, ' ')), "no");
  EXPECT_EQ(After(begun, "</think>maybe"), "no");
  EXPECT_EQ(After(begun, "</think></think>yes"), "no");
  EXPECT_EQ(After(begun, "\xC3</think>"), "no") << "in the middle of a character";
}

// The first close ends it, although the text before it and a later one would do as well.
TEST(PrefaceTest, EndsWithTheFirstClose) {
  const Preface preface = {"", "aba"};
  const auto judge = [&](std::string_view text) {
    return Judge(SourceKind::kRegex, "ba", text, Whitespace::kCompact, preface);
  };
  EXPECT_EQ(judge("ababa"), "yes");
  EXPECT_EQ(judge("abababa"), "no");
}

TEST(PrefaceTest, MayBeLeftOutWhereItHasNotBegun) {
  const Preface preface = {"<think>", "</think>"};
  EXPECT_EQ(After(preface, "yes"), "yes");
  EXPECT_EQ(After(preface, "<think>yes"), "part");
  EXPECT_EQ(After(preface, " \n<think></think>\nyes"), "yes");
  EXPECT_EQ(After(preface, "maybe<think></think>yes"), "no");
  EXPECT_EQ(After(preface, " yes"), "no");
  EXPECT_EQ(After({}, "yes"), "yes");
}

TEST(PrefaceTest, MarksThatAreTokensSpanBorders) {
  const std::vector<std::string> more = {"thought</thi", "nk>\n\nye", "nk>x", "</think>",
                                         "</think>no"};
  const std::vector<std::string> special = {"</think>", "<think>"};
  const Preface preface = {"", "</think>"};
  Matcher matcher(std::make_shared<Automaton>(
      MakeGrammar(SourceKind::kChoice, R"(["yes","no"])", Whitespace::kCompact, preface),
      ByteTokens(more, special)));
  std::vector<TokenId> allowed = AllowedIds(&matcher);
  for (const TokenId id : {256, 257, 258, 259, 260, 261}) EXPECT_THAT(allowed, Contains(id));
  EXPECT_THAT(allowed, Not(Contains(262))) << "special tokens are no text";
  EXPECT_THAT(allowed, Not(Contains(kEndOfTest)));
  Matcher by_special = matcher;
  ASSERT_TRUE(by_special.AcceptToken(261).ok());
  EXPECT_THAT(AllowedIds(&by_special), ElementsAre('\t', '\n', ' ', 'n', 'y'));
  ASSERT_TRUE(matcher.AcceptToken(256).ok());
  allowed = AllowedIds(&matcher);
  EXPECT_THAT(allowed, Contains(257)) << "the end of the mark and a beginning of the answer";
  EXPECT_THAT(allowed, Not(Contains(258)));
  ASSERT_TRUE(matcher.AcceptToken(257).ok());
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre('s'));
}

TEST(PrefaceTest, OpenedBySpecialTokens) {
  const Preface preface = {"<think>", "</think>"};
  Matcher matcher(std::make_shared<Automaton>(
      MakeGrammar(SourceKind::kChoice, R"(["yes"])", Whitespace::kCompact, preface),
      ByteTokens({}, {"<think>", "</think>"})));
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre('\t', '\n', ' ', '<', 'y', 256));
  ASSERT_TRUE(matcher.AcceptToken(256).ok());
  ASSERT_TRUE(matcher.AcceptToken('y').ok());
  EXPECT_THAT(AllowedIds(&matcher), Contains(257));
  ASSERT_TRUE(matcher.AcceptToken(257).ok());
  ASSERT_TRUE(matcher.Accept("yes").ok());
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre(kEndOfTest));
}

// Masks and the matcher say the same of every byte, before, in and behind the marks.
TEST(PrefaceTest, MasksSayWhatAcceptingSays) {
  const Preface preface = {"<t>", "</t>"};
  const std::string text = " <t>a</ét</t>\n{\"a\":[1]}";
  const auto automaton = std::make_shared<Automaton>(
      MakeGrammar(SourceKind::kJsonObject, "", Whitespace::kCompact, preface), ByteTokens());
  for (size_t length = 0; length <= text.size(); ++length) {
    Matcher matcher(automaton);
    ASSERT_TRUE(matcher.Accept(std::string_view(text).substr(0, length)).ok()) << length;
    const std::vector<TokenId> allowed = AllowedIds(&matcher);
    for (int byte = 0; byte < 255; ++byte) {
      Matcher copy = matcher;
      const char c = static_cast<char>(byte);
      EXPECT_EQ(copy.Accept({&c, 1}).ok(),
                std::find(allowed.begin(), allowed.end(), byte) != allowed.end())
          << length << " " << byte;
    }
  }
}

TEST(PrefaceTest, RefusedByName) {
  const auto refusal = [](const Preface& preface) {
    return std::string(Grammar::Create({SourceKind::kRegex, "a", Whitespace::kCompact, preface})
                           .status()
                           .message());
  };
  EXPECT_THAT(refusal({"<think>", ""}), HasSubstr("preface.close: must be there"));
  EXPECT_THAT(refusal({"", std::string(257, 'x')}), HasSubstr("preface.close: 257 bytes"));
  EXPECT_THAT(refusal({"\xC3", "x"}), HasSubstr("preface.open: not UTF-8"));
}

}  // namespace
}  // namespace tutti::grammar
