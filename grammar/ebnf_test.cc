#include "grammar/ebnf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_testing.h"

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

TEST(EbnfTest, NestsAsDeepAsTheTextDoes) {
  const std::string deep(20'000, '(');
  EXPECT_EQ(Ebnf("r ::= \"(\" r \")\" | \"x\"", deep + "x" + std::string(20'000, ')')), "yes");
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
}

}  // namespace
}  // namespace tutti::grammar
