// Sources made to hold others up: each is refused or served within the bounds of limits.h, which
// are counted in units of work and not in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grammar/grammar_testing.h"
#include "grammar/hostile_testing.h"
#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

using testing::HasSubstr;

// Makes the grammar and masks of a text, and says what came of it; checks the work of each.
std::string Meet(SourceKind kind, const std::string& source, std::string_view text) {
  const auto grammar = Grammar::Create({kind, source});
  if (!grammar.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(grammar.status()) ||
                absl::IsResourceExhausted(grammar.status()))
        << grammar.status();
    return std::string(grammar.status().message());
  }
  const auto automaton = std::make_shared<Automaton>(*grammar, ByteTokens());
  Matcher matcher(automaton);
  std::vector<uint32_t> mask(automaton->tokens().words());
  for (size_t i = 0; i < text.size(); ++i) {
    for (const absl::Status& status :
         {matcher.Mask(mask), matcher.Accept(std::string(1, text[i]))}) {
      // A state more than the limit may be made before it is seen.
      EXPECT_LE(matcher.work(), 2 * kOperationWorkMax);
      if (!status.ok()) return std::string(status.message());
    }
    EXPECT_LE(automaton->bytes(), 3 * kAutomatonBytesMax);
  }
  return "served";
}

// Nothing takes more work than there is for one grammar, but for one step, which is counted before
// it is begun or ends soon: that is where a loop over a source forgets to count.
TEST(HostileTest, MakingIsBounded) {
  for (const HostileSource& hostile : HostileSources()) {
    int64_t work = 0;
    const auto grammar = Grammar::Create(hostile.source, &work);
    EXPECT_GT(work, 0) << hostile.name;
    EXPECT_LE(work, 2 * kBuildWorkMax) << hostile.name;
    if (grammar.ok()) continue;
    EXPECT_TRUE(absl::IsInvalidArgument(grammar.status()) ||
                absl::IsResourceExhausted(grammar.status()))
        << hostile.name << ": " << grammar.status();
  }
}

TEST(HostileTest, LongLengths) {
  EXPECT_EQ(Meet(SourceKind::kJsonSchema,
                 R"({"type":"string","maxLength":1000000000,"minLength":999999999})", "\"abc"),
            "served");
  EXPECT_EQ(Meet(SourceKind::kJsonSchema,
                 R"({"type":"string","maxLength":1000000000,"pattern":"^[a-z]*$"})", "\"abc"),
            "served");
  EXPECT_EQ(Meet(SourceKind::kJsonSchema,
                 R"({"type":"array","minItems":1000000000,"items":{"type":"null"}})", "[null,"),
            "served");
  EXPECT_THAT(Meet(SourceKind::kJsonSchema, R"({"pattern":"^a{1000000000}$"})", ""),
              HasSubstr("a repetition of more than"));
}

TEST(HostileTest, NestedRepetitions) {
  EXPECT_THAT(Meet(SourceKind::kJsonSchema, R"x({"pattern":"((a{99}){99}){99}"})x", ""),
              HasSubstr("instructions"));
  EXPECT_EQ(Meet(SourceKind::kRegex, "((a*)*|(a+)+|(a|aa)*)*b", std::string(300, 'a')), "served");
  EXPECT_EQ(Meet(SourceKind::kRegex, "(.*a){200}", std::string(300, 'a')), "served");
  EXPECT_THAT(Meet(SourceKind::kEbnf, "r ::= ((\"a\"{99}){99}){99}", "aaa"), "served");
}

TEST(HostileTest, AutomataThatGrowByPowers) {
  // 2^20 states if all were made.
  EXPECT_EQ(Meet(SourceKind::kRegex, "(a|b)*a(a|b){20}", std::string(100, 'a')), "served");
  EXPECT_THAT(Meet(SourceKind::kJsonSchema,
                   R"x({"type":"string","pattern":"(a|b)*a(a|b){20}$","maxLength":1000})x", "\"a"),
              HasSubstr("too large"));
}

TEST(HostileTest, Unions) {
  std::string union_of_two = R"({"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]})";
  std::string all;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&all, i == 0 ? "" : ",", union_of_two);
  EXPECT_THAT(Meet(SourceKind::kJsonSchema, "{\"allOf\":[" + all + "]}", ""),
              HasSubstr("alternatives"));
  // Each level has two ways to the next one; the text can be read in 2^n ways.
  const std::string both =
      R"({"$ref":"#/$defs/r","$defs":{"r":{"anyOf":[
          {"type":"array","items":{"$ref":"#/$defs/r"},"maxItems":1},
          {"type":"array","items":{"$ref":"#/$defs/r"},"maxItems":2}]}}})";
  EXPECT_EQ(Meet(SourceKind::kJsonSchema, both, std::string(300, '[')), "served");
  const std::string one = "{\"oneOf\":[" + Nested(60, "{\"oneOf\":[", "true", "]}") + "]}";
  EXPECT_EQ(Meet(SourceKind::kJsonSchema, one, ""), "served");
  EXPECT_THAT(Meet(SourceKind::kJsonSchema, Nested(500, "{\"anyOf\":[", "true", ",{}]}"), ""),
              HasSubstr("nested deeper"));
}

TEST(HostileTest, ReferencesThatGoRound) {
  std::string definitions;
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&definitions, i == 0 ? "" : ",", "\"d", i,
                    "\":{\"allOf\":[{\"$ref\":\"#/$defs/d", (i + 1) % 200,
                    "\"},{\"$ref\":\"#/$defs/d", (i * 7 + 3) % 200, "\"}]}");
  }
  EXPECT_THAT(Meet(SourceKind::kJsonSchema,
                   "{\"$ref\":\"#/$defs/d0\",\"$defs\":{" + definitions + "}}", "[[1"),
              HasSubstr("more than 256 schemas in one place"));
  EXPECT_EQ(Meet(SourceKind::kJsonSchema, R"({"items":{"$ref":"#"},"type":"array"})",
                 std::string(kTextDepthMax - 1, '[')),
            "served");
  EXPECT_THAT(Meet(SourceKind::kJsonSchema, R"({"items":{"$ref":"#"},"type":"array"})",
                   std::string(2 * kTextDepthMax, '[')),
              HasSubstr("does not allow byte"));
}

// Those who ask for deep texts keep no other text by the same grammar from going on.
TEST(HostileTest, DeepTextsTakeNothingFromOthers) {
  const auto automaton = MakeAutomaton(SourceKind::kJsonObject, "");
  std::vector<Matcher> deep;
  for (int i = 0; i < 300; ++i) {
    Matcher& matcher = deep.emplace_back(automaton);
    ASSERT_TRUE(matcher.Accept(absl::StrCat("{\"", i, "\":")).ok());
    // As deep as may be, in more than one shape.
    std::vector<uint32_t> mask(automaton->tokens().words());
    for (int byte = 0; byte < 5'000; ++byte) {
      if (!matcher.Accept((i >> (byte % 8) & 1) != 0 ? "[" : "{\"a\":").ok()) break;
    }
    ASSERT_LT(matcher.text().size(), 10'000u);
    ASSERT_TRUE(matcher.Mask(mask).ok());
  }
  Matcher other(automaton);
  EXPECT_TRUE(other.Accept("{\"name\":\"x\",\"list\":[1,2,{\"a\":null}]}").ok());
  EXPECT_TRUE(*other.IsComplete());
  EXPECT_LE(automaton->bytes(), 3 * kAutomatonBytesMax);
}

// Whoever has no time for an operation may begin it again, or have another do it.
TEST(HostileTest, WhatTakesTooLongForNowCanBeBegunAgain) {
  const std::string source = "s ::= p{0,100000}\np ::= \"a\"{1,40}";
  const std::string text(250, 'a');
  std::vector<std::string> tokens;
  for (size_t size = 10; size < 250; size += 6) tokens.emplace_back(size, 'a');
  Matcher hurried(MakeAutomaton(SourceKind::kEbnf, source, tokens));
  Matcher patient(MakeAutomaton(SourceKind::kEbnf, source, tokens));
  std::vector<uint32_t> mask(ByteTokens(tokens)->words()), expected = mask;
  ASSERT_TRUE(patient.Accept(text).ok());
  ASSERT_TRUE(patient.Mask(expected).ok());
  hurried.EndAt(Duration());
  EXPECT_TRUE(absl::IsAborted(hurried.Accept(text)));
  EXPECT_EQ(hurried.text(), "");
  hurried.EndAt(std::nullopt);
  ASSERT_TRUE(hurried.Accept(text).ok());
  hurried.EndAt(Duration());
  EXPECT_TRUE(absl::IsAborted(hurried.Mask(mask)));
  hurried.EndAt(std::nullopt);
  ASSERT_TRUE(hurried.Mask(mask).ok());
  EXPECT_EQ(mask, expected);
  EXPECT_EQ(hurried.work(), patient.work());
}

// With less work than it takes a source is neither good nor bad.
TEST(HostileTest, WithoutTheWorkNothingIsSaid) {
  int64_t given = 1'000;
  for (const HostileSource& hostile : HostileSources()) {
    int64_t work = 0;
    const auto whole = Grammar::Create(hostile.source, &work);
    const auto less = Grammar::Create(hostile.source, /*work=*/nullptr, given);
    if (work > given && !less.ok()) {
      EXPECT_TRUE(absl::IsAborted(less.status())) << hostile.name << ": " << less.status();
    } else {
      EXPECT_EQ(less.status(), whole.status()) << hostile.name;
    }
  }
}

TEST(HostileTest, ManyProperties) {
  EXPECT_EQ(Meet(SourceKind::kJsonSchema,
                 "{\"type\":\"object\",\"additionalProperties\":false," +
                     Properties(10'000, R"({"type":"string"})") + "}",
                 "{\"property1234\":\"a\",\"property9"),
            "served");
  EXPECT_EQ(Meet(SourceKind::kJsonSchema,
                 "{\"type\":\"object\"," + Properties(10'000, R"({"type":"integer"})") + "}",
                 "{\"property1234\":1,\"q"),
            "served");
  EXPECT_THAT(Meet(SourceKind::kJsonSchema,
                   "{\"patternProperties\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{}}," +
                       Properties(1'000, "{}") + "}",
                   ""),
              HasSubstr("patterns meet"));
  std::string names;
  for (int i = 0; i < 20'000; ++i) absl::StrAppend(&names, i == 0 ? "" : ",", "\"name", i, "\"");
  EXPECT_EQ(Meet(SourceKind::kJsonSchema, "{\"enum\":[" + names + "]}", "\"name19"), "served");
  EXPECT_EQ(Meet(SourceKind::kChoice, "[" + names + "]", "name19"), "served");
}

TEST(HostileTest, LargeSources) {
  EXPECT_THAT(Meet(SourceKind::kRegex, std::string(1 << 20, '('), ""), HasSubstr("bytes"));
  EXPECT_THAT(Meet(SourceKind::kJsonSchema, std::string(1 << 20, '['), ""), HasSubstr("nested"));
  EXPECT_THAT(Meet(SourceKind::kEbnf, std::string(1 << 20, '('), ""), HasSubstr("not NAME"));
  std::string pattern = R"({"type":"string","pattern":"^()";
  for (int i = 0; pattern.size() < 60'000; ++i)
    absl::StrAppend(&pattern, i == 0 ? "" : "|", "word", i);
  pattern += ")$\"}";
  const std::string outcome = Meet(SourceKind::kJsonSchema, pattern, "\"wo");
  EXPECT_THAT(outcome, testing::AnyOf("served", HasSubstr("instructions")));
  std::string rules = "root ::= r0";
  for (int i = 0; i < 8'000; ++i)
    absl::StrAppend(&rules, "\nr", i, " ::= \"a\" r", i + 1, " | \"b\"");
  rules += "\nr8000 ::= \"c\"";
  EXPECT_EQ(Meet(SourceKind::kEbnf, rules, "aaa"), "served");
}

TEST(HostileTest, AmbiguityEndsWithWords) {
  // The readings of n letters grow with the square of n, and faster.
  const std::string source =
      "s ::= (p | q){0,4000}\np ::= [a]{0,300} \"a\"\nq ::= (\"a\" | \"aa\" | \"aaa\"){1,900}";
  const std::string outcome = Meet(SourceKind::kEbnf, source, std::string(600, 'a'));
  EXPECT_THAT(outcome, testing::AnyOf("served", HasSubstr("too many ways")));
}

// What is remembered makes an operation shorter, and must not make it possible: streams would end
// on a worker that has met less. The first masks of these take nearly all that they may, on either
// side of the limit.
TEST(HostileTest, WhatIsTooMuchDoesNotDependOnWhatCameBefore) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  const std::string letters = " abcdefghijklmnopqrstuvwxyz";
  for (const char a : letters) {
    for (const char b : letters) {
      for (const char c : letters) tokens.push_back({a, b, c});
      tokens.push_back({a, b});
    }
  }
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  const std::vector<TokenId> ends = {static_cast<TokenId>(tokens.size())};
  auto trie = TokenTrie::Create(views, ends, ends[0] + 1);
  ASSERT_TRUE(trie.ok()) << trie.status();
  const auto vocabulary = std::make_shared<const TokenTrie>(*std::move(trie));
  int refused = 0, made = 0;
  for (int size : {3, 10, 30, 100, 300, 1000, 3000}) {
    const std::pair<SourceKind, std::string> sources[] = {
        {SourceKind::kRegex, absl::StrCat("(a|b|c|[a-z ])*e([a-z ]){", size, "}")},
        {SourceKind::kRegex, absl::StrCat("(?:[a-z]?[ -~]?){", size, "}")},
        {SourceKind::kEbnf, absl::StrCat("root ::= ([a-z ]{0,", size, "} \"a\" | [a-z ]{1,",
                                         size + 100, "} \"b\")* \"x\"")},
        {SourceKind::kEbnf, absl::StrCat("root ::= (w | v){0,", size, "}\nw ::= [a-z ]{1,40} | ",
                                         "[a-z]{1,30}\nv ::= \"a\"{1,30} | [a-z]{2,50}")}};
    for (const auto& [kind, source] : sources) {
      const auto grammar = Grammar::Create({kind, source});
      if (!grammar.ok()) continue;
      const auto automaton = std::make_shared<Automaton>(*grammar, vocabulary);
      std::vector<uint32_t> mask(automaton->tokens().words()), first;
      for (const std::string text : {"", "ee", "the ", ""}) {
        // As by one that has met nothing.
        Matcher fresh(std::make_shared<Automaton>(*grammar, vocabulary));
        const bool accepted = fresh.Accept(text).ok();
        const absl::Status expected = accepted ? fresh.Mask(mask) : absl::OkStatus();
        first = mask;
        for (int again = 0; again < 3; ++again) {
          Matcher matcher(automaton);
          ASSERT_EQ(matcher.Accept(text).ok(), accepted) << source << " '" << text << "' " << again;
          if (!accepted) continue;
          ASSERT_EQ(matcher.Mask(mask).ok(), expected.ok())
              << source << " '" << text << "' " << again << ": " << matcher.work() << " units, "
              << fresh.work();
          if (expected.ok()) {
            EXPECT_EQ(mask, first);
          }
        }
        ++(accepted && expected.ok() ? made : refused);
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(made, 0);
}

}  // namespace
}  // namespace tutti::grammar
