#include "grammar/matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "grammar/grammar_testing.h"
#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MatcherTest, AllowsTokensThatGoOnAndTheEndWhereItMayBe) {
  // 256: ab, 257: abc, 258: abd, 259: ab once more, 260: no text.
  Matcher matcher(MakeAutomaton(SourceKind::kRegex, "abc?", {"ab", "abc", "abd", "ab", ""}));
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre('a', 256, 257, 259));
  ASSERT_TRUE(matcher.AcceptToken(256).ok());
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre('c', kEndOfTest));
  EXPECT_TRUE(*matcher.IsComplete());
  EXPECT_FALSE(*matcher.IsFinal());
  ASSERT_TRUE(matcher.AcceptToken('c').ok());
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre(kEndOfTest));
  EXPECT_TRUE(*matcher.IsFinal());
  EXPECT_EQ(*matcher.ForcedToken(), kEndOfTest);
  ASSERT_TRUE(matcher.AcceptToken(kEndOfTest).ok());
  EXPECT_TRUE(matcher.ended());
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre());
  EXPECT_FALSE(matcher.AcceptToken('c').ok());
  EXPECT_FALSE(matcher.AcceptToken(kEndOfTest).ok());
}

TEST(MatcherTest, RefusesWithThePositionAndStaysWhereItWas) {
  Matcher matcher(MakeAutomaton(SourceKind::kChoice, R"(["yes","no"])"));
  ASSERT_TRUE(matcher.Accept("ye").ok());
  EXPECT_THAT(std::string(matcher.Accept("st").message()), HasSubstr("byte 3 of the text"));
  EXPECT_THAT(std::string(matcher.AcceptToken(kEndOfTest).message()),
              HasSubstr("may not end at byte 2"));
  EXPECT_THAT(std::string(matcher.AcceptToken(299).message()), HasSubstr("stands for no text"));
  EXPECT_THAT(std::string(matcher.AcceptToken(-1).message()), HasSubstr("stands for no text"));
  EXPECT_EQ(matcher.text(), "ye");
  EXPECT_EQ(*matcher.ForcedToken(), 's');
  EXPECT_TRUE(matcher.Accept("s").ok());
}

TEST(MatcherTest, TakesBackAndGoesOnInCopies) {
  Matcher matcher(MakeAutomaton(SourceKind::kRegex, "a+b|a+c{3}"));
  ASSERT_TRUE(matcher.AcceptToken('a').ok());
  Matcher copy = matcher;
  ASSERT_TRUE(matcher.AcceptToken('b').ok());
  ASSERT_TRUE(matcher.AcceptToken(kEndOfTest).ok());
  ASSERT_TRUE(copy.AcceptToken('c').ok());
  EXPECT_THAT(AllowedIds(&copy), ElementsAre('c'));
  matcher.Rollback(2);
  EXPECT_FALSE(matcher.ended());
  EXPECT_EQ(matcher.text(), "a");
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre('a', 'b', 'c'));
  const std::vector<TokenId> draft = {'a', 'c', 'c', 'b', 'c'};
  EXPECT_EQ(*matcher.CountAccepted(draft), 3U);
  EXPECT_EQ(matcher.text(), "a");
  matcher.Rollback(1);
  EXPECT_THAT(AllowedIds(&matcher), ElementsAre('a'));
}

// The mask is a function of the bytes: not of how they were cut into tokens, nor of what the
// automaton has seen.
TEST(MatcherTest, MasksDependOnBytesAlone) {
  const std::string_view schema =
      R"({"type":"object","properties":{"a":{"type":"string","maxLength":9},
          "b":{"type":"array","items":{"type":"integer","minimum":3},"maxItems":4}},
          "required":["a"]})";
  const std::vector<std::string> tokens = {"{\"", "a\":\"", "\",\"b\":[", "12",
                                           ",4",  "]}",     "é",          "\xC3"};
  const std::string text = R"({"a":"éx","b":[12,4]})";
  const auto automaton = MakeAutomaton(SourceKind::kJsonSchema, schema, tokens);
  for (size_t length = 0; length <= text.size(); ++length) {
    Matcher fresh(MakeAutomaton(SourceKind::kJsonSchema, schema, tokens));
    ASSERT_TRUE(fresh.Accept(std::string_view(text).substr(0, length)).ok());
    Matcher bytes(automaton);
    for (size_t i = 0; i < length; ++i) {
      ASSERT_TRUE(bytes.Accept(std::string_view(text).substr(i, 1)).ok());
      AllowedIds(&bytes);
    }
    EXPECT_EQ(AllowedIds(&fresh), AllowedIds(&bytes)) << length;
  }
}

// More is taken back than the matcher keeps places for.
TEST(MatcherTest, TakesMuchBack) {
  const auto automaton =
      MakeAutomaton(SourceKind::kJsonSchema,
                    R"({"type":"array","maxItems":2500,"items":{"maxLength":3}})", {"\"ab", "\","});
  Matcher matcher(automaton);
  ASSERT_TRUE(matcher.Accept("[").ok());
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(matcher.AcceptToken(256).ok());
    ASSERT_TRUE(matcher.AcceptToken(257).ok());
  }
  for (const size_t left : {size_t{3'001}, size_t{2'990}, size_t{2'500}, size_t{700}, size_t{0}}) {
    matcher.Rollback(matcher.accepted() - left);
    Matcher fresh(automaton);
    ASSERT_TRUE(fresh.Accept(matcher.text()).ok());
    EXPECT_EQ(AllowedIds(&matcher), AllowedIds(&fresh)) << left;
  }
}

// A text of more states than are held: what was read is not read again, and masks stay what they
// were, also of others that are somewhere else in the same automaton.
TEST(MatcherTest, GoesOnWhereTheAutomatonForgot) {
  const std::string_view schema =
      R"({"type":"array","items":{"type":"string","maxLength":900000,"pattern":"^[a-y]*$"}})";
  const auto automaton = MakeAutomaton(SourceKind::kJsonSchema, schema, {std::string(100, 'x')});
  Matcher other(automaton);
  ASSERT_TRUE(other.Accept("[\"" + std::string(899'999, 'y')).ok());
  EXPECT_GT(automaton->forgotten(), 0U);
  const std::vector<TokenId> other_allowed = AllowedIds(&other);
  EXPECT_THAT(other_allowed, testing::Contains('y'));
  EXPECT_THAT(other_allowed, testing::Not(testing::Contains('z')));
  Matcher matcher(automaton);
  ASSERT_TRUE(matcher.Accept("[\"").ok());
  const uint64_t before = automaton->forgotten();
  int64_t most = 0;
  for (int i = 0; i < 8'000; ++i) {
    ASSERT_TRUE(matcher.AcceptToken(256).ok());
    most = std::max(most, matcher.work());
    EXPECT_LE(automaton->bytes(), 2 * kAutomatonBytesMax + kMaskBytesMax);
  }
  EXPECT_GT(automaton->forgotten(), before);
  EXPECT_LE(most, 2'000);
  EXPECT_EQ(AllowedIds(&other), other_allowed);
  Matcher fresh(MakeAutomaton(SourceKind::kJsonSchema, schema, {std::string(100, 'x')}));
  ASSERT_TRUE(fresh.Accept(matcher.text()).ok());
  EXPECT_EQ(AllowedIds(&matcher), AllowedIds(&fresh));
  Matcher copy = matcher;
  ASSERT_TRUE(copy.Accept(std::string(99'999, 'a')).ok());
  EXPECT_TRUE(copy.Accept("a").ok());
  EXPECT_FALSE(copy.Accept("a").ok());
  EXPECT_EQ(AllowedIds(&matcher), AllowedIds(&fresh));
}

// A mask says of each token what accepting its bytes says.
TEST(MatcherTest, MasksSayWhatAcceptingSays) {
  const std::vector<std::string> tokens = {"{\"a\":", "\"", "abc",  "ab\"", "\"}",   "12",
                                           "1}",      "é",  "\xC3", "\\u",  "\\\"x", "xxxxxxxx",
                                           "xx\",",   "}",  "{}",   "[1,",  "null"};
  for (const std::string schema :
       {R"({"type":"object","properties":{"a":{"type":"string","maxLength":5}},
            "additionalProperties":{"type":"integer"}})",
        R"({"type":"array","items":{"type":"string","minLength":2,"pattern":"[ab]x?"}})", "{}",
        R"({"type":"number","minimum":10,"maximum":125})"}) {
    const auto automaton = MakeAutomaton(SourceKind::kJsonSchema, schema, tokens);
    const auto trie = ByteTokens(tokens);
    for (const std::string text :
         {"", "{\"", "{\"a\":\"abc", "[\"ab\"", "1", "[", "{\"a\":\"x\\"}) {
      Matcher matcher(automaton);
      if (!matcher.Accept(text).ok()) continue;
      const std::vector<TokenId> allowed = AllowedIds(&matcher);
      for (TokenId id = 0; id < kEndOfTest; ++id) {
        Matcher copy = matcher;
        const bool accepted = !trie->Bytes(id).empty() && copy.Accept(trie->Bytes(id)).ok();
        EXPECT_EQ(accepted, std::find(allowed.begin(), allowed.end(), id) != allowed.end())
            << schema << " after " << text << ": " << trie->Bytes(id);
      }
    }
  }
}

TEST(MatcherTest, DigestsNameSources) {
  const auto digest = [](SourceKind kind, std::string_view text, Whitespace whitespace) {
    return MakeGrammar(kind, text, whitespace)->digest();
  };
  const auto one = digest(SourceKind::kJsonSchema, "{}", Whitespace::kCompact);
  EXPECT_EQ(one, digest(SourceKind::kJsonSchema, "{}", Whitespace::kCompact));
  EXPECT_NE(one, digest(SourceKind::kJsonSchema, "{}", Whitespace::kBounded));
  EXPECT_NE(one, digest(SourceKind::kJsonSchema, "true", Whitespace::kCompact));
  EXPECT_NE(digest(SourceKind::kRegex, "[1]", Whitespace::kCompact),
            digest(SourceKind::kEbnf, "a::=[1]", Whitespace::kCompact));
  std::set<Grammar::Digest> digests = {one};
  for (const Preface& preface : {Preface{"", "ab"}, Preface{"a", "b"}, Preface{"ab", "c"},
                                 Preface{"a", "bc"}, Preface{"1 a", "b"}}) {
    digests.insert(
        MakeGrammar(SourceKind::kJsonSchema, "{}", Whitespace::kCompact, preface)->digest());
  }
  EXPECT_EQ(digests.size(), 6U);
}

TEST(TokenTrieTest, Errors) {
  const std::vector<std::string_view> bytes = {"a", "b"};
  const std::vector<TokenId> ends = {5};
  EXPECT_FALSE(TokenTrie::Create(bytes, ends, 5).ok());
  EXPECT_FALSE(TokenTrie::Create(bytes, {}, 1).ok());
  EXPECT_FALSE(TokenTrie::Create(bytes, ends, 6, std::vector<TokenId>{2}).ok());
  EXPECT_EQ(TokenTrie::Create(bytes, ends, 6, std::vector<TokenId>{1})->Bytes(1), "\xFF\x62\xFF");
  const auto trie = TokenTrie::Create(bytes, ends, 6);
  ASSERT_TRUE(trie.ok());
  EXPECT_TRUE(trie->IsEnd(5));
  EXPECT_EQ(trie->Bytes(1), "b");
  EXPECT_EQ(trie->Bytes(4), "");
  EXPECT_EQ(trie->words(), 1U);
}

}  // namespace
}  // namespace tutti::grammar
