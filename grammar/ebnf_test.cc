#include "grammar/ebnf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_testing.h"
#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

using testing::HasSubstr;

std::string Ebnf(std::string_view source, std::string_view text) {
  return Judge(SourceKind::kEbnf, source, text);
}

TEST(EbnfTest, Rules) {
  const std::string_view source = R"x(# An expression.
    root ::= term (("+" | "-") term)*
    term ::= [0-9]+ | "(" root ")"   # nested
  )x";
  EXPECT_EQ(Ebnf(source, "1+(23-4)"), "yes");
  EXPECT_EQ(Ebnf(source, "1+(23-4"), "part");
  EXPECT_EQ(Ebnf(source, "1+)"), "no");
  EXPECT_EQ(Ebnf("a ::= b\nroot ::= \"x\"\nb ::= \"y\"", "x"), "yes");
  EXPECT_EQ(Ebnf("a ::= b b ::= \"y\"", "y"), "yes") << "the first rule where none is root";
}

TEST(EbnfTest, Repetitions) {
  EXPECT_EQ(Ebnf("r ::= \"ab\"{2,3}", "abab"), "yes");
  EXPECT_EQ(Ebnf("r ::= \"ab\"{2,3}", "ab"), "part");
  EXPECT_EQ(Ebnf("r ::= \"ab\"{2,3}", "abababa"), "no");
  EXPECT_EQ(Ebnf("r ::= (\"a\"? \"b\"?){1000000} \"c\"", "abbac"), "yes");
  EXPECT_EQ(Ebnf("r ::= (\"\")* \"c\"", "c"), "yes");
  EXPECT_EQ(Ebnf("r ::= ((\"a\"*)*)* \"c\"", "aaac"), "yes");
}

TEST(EbnfTest, StringsAndClasses) {
  EXPECT_EQ(Ebnf(R"(r ::= "\"\n\x41\u00e9\u{1F600}é\\" [^a-c\]] .)", "\"\nAé😀é\\dx"), "yes");
  EXPECT_EQ(Ebnf(R"(r ::= "\ud83d\ude00")", "😀"), "yes");
  EXPECT_EQ(Ebnf("r ::= [à-ü]", "\xC2"), "no");
}

TEST(EbnfTest, EscapesAreOfWholeCharacters) { EXPECT_EQ(Ebnf("r ::= \"a\\é\"", "aé"), "yes"); }

// An escape may be cut short by the end of its string.
TEST(EbnfTest, EscapesThatAreNoneAreRefused) {
  for (const std::string escape : {"\\u", "\\u0", "\\u00e", "\\u{", "\\u{}", "\\u{41", "\\x",
                                   "\\x4", "\\ud83d", "\\ud83d\\u", "\\ud83d\\ude", "\\u004\\u"}) {
    EXPECT_NE(Refusal(SourceKind::kEbnf, "r ::= \"a" + escape + "\""), "") << escape;
    EXPECT_NE(Refusal(SourceKind::kEbnf, "r ::= [a" + escape + "]"), "") << escape;
    EXPECT_NE(Refusal(SourceKind::kRegex, "a" + escape), "") << escape;
  }
}

TEST(EbnfTest, NestsAsDeepAsTextsMay) {
  const auto nested = [](size_t depth) {
    return Ebnf("r ::= \"(\" r \")\" | \"x\"",
                std::string(depth, '(') + "x" + std::string(depth, ')'));
  };
  EXPECT_EQ(nested(kTextDepthMax - 1), "yes");
  EXPECT_EQ(nested(kTextDepthMax), "no");
  // What only goes on nests nowhere, whether in a rule's body or in what may be left out.
  std::string list = "1";
  for (int i = 0; i < 3'000; ++i) list += ",1";
  EXPECT_EQ(Ebnf("list ::= [0-9] (\",\" list)?", list), "yes");
  EXPECT_EQ(Ebnf("r ::= ws \"x\"\nws ::= (\" \" ws)?", std::string(3'000, ' ') + "x"), "yes");
  EXPECT_EQ(Ebnf("r ::= \"(\" r | \"x\"", std::string(20'000, '(') + "x"), "yes");
}

// Each text of n letters can be read in 2^n ways; what is called has one place, whoever calls it.
TEST(EbnfTest, AmbiguousStacksAreOne) {
  const std::string_view source = "s ::= \"a\" s \"b\" | \"a\" s \"c\" | \"d\"";
  EXPECT_EQ(Ebnf(source, std::string(200, 'a') + "d" + std::string(200, 'b')), "yes");
}

TEST(EbnfTest, EmptyRules) {
  const std::string_view source = "r ::= e e \"x\" e\ne ::= \"\" | \"y\" | e2\ne2 ::= \"z\"?";
  EXPECT_EQ(Ebnf(source, "x"), "yes");
  EXPECT_EQ(Ebnf(source, "yzxz"), "yes");
  EXPECT_EQ(Ebnf(source, "yyyx"), "no");
}

TEST(EbnfTest, SchemasInside) {
  const std::string_view source = R"x(
    root ::= "<call>" %json {"type":"object","properties":{"a}\"":{"type":"integer"}},
                             "additionalProperties":false} "</call>"
           | %json {"$ref":"#/$defs/n","$defs":{"n":{"anyOf":[{"$ref":"#/$defs/m"},
                    {"type":"array","items":{"$ref":"#"}}]},
                    "m":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/o"}]},
                    "o":{"anyOf":[{"type":"boolean"},{"$ref":"#/$defs/m"}]}}} root2?
    root2 ::= ";" root
  )x";
  EXPECT_EQ(Ebnf(source, R"(<call>{"a}\"":1}</call>)"), "yes");
  EXPECT_EQ(Ebnf(source, R"(<call>{"a}\"":1.5)"), "no");
  EXPECT_EQ(Ebnf(source, "[null,[true,[]]]"), "yes");
  EXPECT_EQ(Ebnf(source, "[null,[true,[]]];<call>{}</call>"), "yes");
  EXPECT_EQ(Ebnf(source, "[null];"), "part");
  EXPECT_EQ(Judge(SourceKind::kEbnf, "r ::= %json {\"type\":\"array\"} \"x\"", "[ 1 ]x",
                  Whitespace::kBounded),
            "yes");
  // Every call of the same text is the same rule.
  std::string many = "r ::= \"x\"";
  for (int i = 0; i < 2'000; ++i) many += " | %json {\"type\":\"object\"}";
  EXPECT_EQ(Ebnf(many, R"({"a":[1,{"b":null}]})"), "yes");
}

TEST(EbnfTest, TextsWithoutOthers) {
  EXPECT_EQ(Ebnf("r ::= %without \"<call>\"", ""), "yes");
  EXPECT_EQ(Ebnf("r ::= %without \"<call>\"", "a<call é"), "yes");
  EXPECT_EQ(Ebnf("r ::= %without \"<call>\"", "a<<call>"), "no");
  // One that goes on where another fails, one inside another, one behind another.
  const std::string_view three = R"(r ::= %without "abcd" "bce" "cc")";
  for (const std::string_view bad : {"abcd", "abce", "xabce", "ababce", "acc", "ccc", "abcc"}) {
    EXPECT_EQ(Ebnf(three, bad), "no") << bad;
  }
  for (const std::string_view good : {"abcabcabc", "bcbcbd", "abc", "cbce"}) {
    EXPECT_EQ(Ebnf(three, good), good == "cbce" ? "no" : "yes") << good;
  }
  EXPECT_EQ(Ebnf(R"(r ::= %without "ab" "abc")", "aab"), "no");
  EXPECT_EQ(Ebnf(R"(r ::= %without "abc" "ab")", "aab"), "no");
  EXPECT_EQ(Ebnf(R"(r ::= (%without "ab") "abab")", "aabab"), "yes");
  EXPECT_EQ(Ebnf(R"(r ::= "x" (%without "</" | %without "<?"){2} "y")", "x</<?y"), "yes");
  EXPECT_EQ(Ebnf("r ::= %without \"x\"", "\xFF"), "no");
  EXPECT_EQ(Ebnf("r ::= %without \"x\"", "\xC3"), "part");
  // No character of two bytes goes on from this one.
  std::string all = "r ::= %without";
  for (int i = 0x80; i < 0xC0; ++i) {
    all += " \"\xC3";
    all += static_cast<char>(i);
    all += '"';
  }
  EXPECT_EQ(Ebnf(all, "\xC3"), "no");
  EXPECT_EQ(Ebnf(all, "\xC4"), "part");
}

TEST(EbnfTest, SpecialTokens) {
  const auto tokens = ByteTokens({"<|x", "<|x|>", "<|y|>"}, {"<|x|>", "<|y|>", "<|x"});
  const auto matcher = [&](std::string_view source) {
    return Matcher(std::make_shared<Automaton>(MakeGrammar(SourceKind::kEbnf, source), tokens));
  };
  Matcher special = matcher("r ::= %special \"<|x|>\" [a-b]");
  EXPECT_THAT(AllowedIds(&special), testing::ElementsAre(259));
  ASSERT_TRUE(special.AcceptToken(259).ok());
  EXPECT_THAT(AllowedIds(&special), testing::ElementsAre('a', 'b'));
  Matcher ordinary = matcher("r ::= \"<|x|>\" | %without \"<|x|>\"");
  const std::vector<TokenId> allowed = AllowedIds(&ordinary);
  for (const TokenId id : {256, 257, 258}) EXPECT_THAT(allowed, testing::Contains(id));
  for (const TokenId id : {255, 259, 260, 261}) {
    EXPECT_THAT(allowed, testing::Not(testing::Contains(id)));
  }
  EXPECT_FALSE(ordinary.AcceptToken(259).ok());
  EXPECT_THAT(MakeGrammar(SourceKind::kEbnf, "r ::= %special \"<|x|>\"")->specials(),
              testing::ElementsAre("<|x|>"));
}

TEST(EbnfTest, RefusedByName) {
  const auto refusal = [](std::string_view source) { return Refusal(SourceKind::kEbnf, source); };
  EXPECT_THAT(refusal("r ::= r \"a\" | \"b\""), HasSubstr("rule r begins with itself"));
  EXPECT_THAT(refusal("r ::= e s\ne ::= \"x\"?\ns ::= r \"y\" | \"z\""),
              HasSubstr("begins with itself"));
  EXPECT_THAT(refusal("r ::= q"), HasSubstr("no rule q, named at byte 6"));
  EXPECT_THAT(refusal("r ::= \"a\"\nr ::= \"b\""), HasSubstr("a second rule r"));
  EXPECT_THAT(refusal("r ::= \"a"), HasSubstr("a string or class without its end"));
  EXPECT_THAT(refusal("r ::= (\"a\""), HasSubstr("a ( without its )"));
  EXPECT_THAT(refusal("r = a"), HasSubstr("not NAME ::="));
  EXPECT_THAT(refusal(""), HasSubstr("no rule"));
  EXPECT_THAT(refusal("r ::= \"a\" r"), HasSubstr("no text satisfies"));
  EXPECT_THAT(refusal("r ::= \"\\d\""), HasSubstr("a class, where a character must be"));
  EXPECT_THAT(refusal("r ::= %json {\"type\":7}"), HasSubstr("%json at byte 6: /type: no type"));
  EXPECT_THAT(refusal("r ::= %json {\"a\":{\"}\"}"), HasSubstr("without a whole object of JSON"));
  EXPECT_THAT(refusal("r ::= %json true"), HasSubstr("without a whole object of JSON"));
  EXPECT_THAT(refusal("r ::= %without"), HasSubstr("not a string"));
  EXPECT_THAT(refusal("r ::= %special \"\""), HasSubstr("an empty string"));
  EXPECT_THAT(refusal("r ::= %other \"x\""), HasSubstr("none of %json, %without"));
  EXPECT_THAT(refusal("r ::= %without \"" + std::string(1025, 'x') + "\""),
              HasSubstr("more than 1024 bytes"));
}

}  // namespace
}  // namespace tutti::grammar
