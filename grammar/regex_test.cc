#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "grammar/grammar_testing.h"
#include "grammar/limits.h"

namespace tutti::grammar {
namespace {

using testing::HasSubstr;

std::string Regex(std::string_view source, std::string_view text) {
  return Judge(SourceKind::kRegex, source, text);
}

TEST(RegexTest, MatchesTheWholeText) {
  EXPECT_EQ(Regex("ab*c", "abbbc"), "yes");
  EXPECT_EQ(Regex("ab*c", "abbb"), "part");
  EXPECT_EQ(Regex("ab*c", "abbbcc"), "no");
  EXPECT_EQ(Regex("ab|cd|", ""), "yes");
  EXPECT_EQ(Regex("(ab|cd)+", "abcdab"), "yes");
  EXPECT_EQ(Regex("^ab$", "ab"), "yes");
  EXPECT_EQ(Regex("(?<name>x)(?:y)?", "xy"), "yes");
}

TEST(RegexTest, Counts) {
  EXPECT_EQ(Regex("a{2,3}", "a"), "part");
  EXPECT_EQ(Regex("a{2,3}", "aaa"), "yes");
  EXPECT_EQ(Regex("a{2,3}", "aaaa"), "no");
  EXPECT_EQ(Regex("(a{2}){2}", "aaaa"), "yes");
  EXPECT_EQ(Regex("a{0}b", "b"), "yes");
  EXPECT_EQ(Regex("a{2,}?", "aaaaa"), "yes");
}

TEST(RegexTest, Classes) {
  EXPECT_EQ(Regex("[a-c_-]+", "ab_-"), "yes");
  EXPECT_EQ(Regex("[^a-c]", "b"), "no");
  EXPECT_EQ(Regex("[^a-c]", "é"), "yes");
  EXPECT_EQ(Regex("[\\]\\d]+", "]7"), "yes");
  EXPECT_EQ(Regex("\\w\\W\\d\\D\\s\\S", "a-1x y"), "yes");
  EXPECT_EQ(Regex(".", "\n"), "no");
  EXPECT_EQ(Regex("[\\s\\S]", "\n"), "yes");
  EXPECT_EQ(Regex("\\x41\\u0042\\u{1F600}\\cJ\\t", "AB😀\n\t"), "yes");
  EXPECT_EQ(Regex("[]a|b", "a"), "no") << "an empty class matches nothing";
}

TEST(RegexTest, CharactersOfSeveralBytes) {
  EXPECT_EQ(Regex("[à-ü]", "\xC3"), "part");
  EXPECT_EQ(Regex("[à-ü]", "\xC2"), "no") << "no character of the class begins so";
  EXPECT_EQ(Regex("[\\u{10000}-\\u{10FFFF}]", "\xF0\x90\x80\x80"), "yes");
  EXPECT_EQ(Regex(".", "\xED\xA0"), "no") << "half of a pair is no character";
  EXPECT_EQ(Regex(".", "\xF4\x90"), "no") << "beyond Unicode";
  EXPECT_EQ(Regex(".", "\xC0"), "no") << "an overlong form";
}

TEST(RegexTest, AnchorsInsideLeadNowhere) {
  EXPECT_EQ(Regex("a(^b|c)", "ac"), "yes");
  EXPECT_EQ(Regex("a(^b|c)", "ab"), "no");
  EXPECT_EQ(Regex("(a$|b)c", "bc"), "yes");
  EXPECT_EQ(Regex("(a$|b)c", "a"), "no") << "nothing can follow";
  EXPECT_THAT(Refusal(SourceKind::kRegex, "a$b"), HasSubstr("no text"));
}

TEST(RegexTest, RefusedByName) {
  const auto refusal = [](std::string_view source) { return Refusal(SourceKind::kRegex, source); };
  EXPECT_THAT(refusal("(?=a)"), HasSubstr("regex: looking around, (?=, is not served at byte 1"));
  EXPECT_THAT(refusal("(?<!a)"), HasSubstr("looking around"));
  EXPECT_THAT(refusal("(a)\\1"), HasSubstr("\\1 is not served"));
  EXPECT_THAT(refusal("\\bword"), HasSubstr("\\b is not served"));
  EXPECT_THAT(refusal("\\p{L}"), HasSubstr("\\p is not served"));
  EXPECT_THAT(refusal("(?i)a"), HasSubstr("(?"));
  EXPECT_THAT(refusal("a**"), HasSubstr("a repetition of nothing"));
  EXPECT_THAT(refusal("*"), HasSubstr("a repetition of nothing"));
  EXPECT_THAT(refusal("a{2"), HasSubstr("a { without its }"));
  EXPECT_THAT(refusal("a{3,2}"), HasSubstr("turned round"));
  EXPECT_THAT(refusal("[b-a]"), HasSubstr("turned round"));
  EXPECT_THAT(refusal("(a"), HasSubstr("a ( without its )"));
  EXPECT_THAT(refusal("a)"), HasSubstr("a ) without its ("));
  EXPECT_THAT(refusal("[a"), HasSubstr("a [ without its ]"));
  EXPECT_THAT(refusal("\\"), HasSubstr("a \\ at the end"));
  EXPECT_THAT(refusal("\xFF"), HasSubstr("not UTF-8 at byte 0"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no text"));
}

TEST(RegexTest, Limits) {
  const auto refusal = [](std::string_view source) { return Refusal(SourceKind::kRegex, source); };
  EXPECT_THAT(refusal("a{1000000000}"), HasSubstr("a repetition of more than 10000"));
  EXPECT_THAT(refusal("((a{200}){200}){200}"), HasSubstr("instructions"));
  EXPECT_THAT(refusal("((((){9999}){9999}){9999}){9999}"), HasSubstr("instructions"));
  EXPECT_THAT(refusal(std::string(1 << 20, 'a')), HasSubstr("bytes of expression"));
  EXPECT_THAT(refusal(std::string((1 << 20) + 1, 'a')), HasSubstr("the limit is"));
  EXPECT_THAT(refusal(std::string(1000, '(')), HasSubstr("nested too deep"));
  EXPECT_EQ(Regex("a{5000}", std::string(5000, 'a')), "yes");
}

// What makes machines that go back take a time that grows by powers.
TEST(RegexTest, AmbiguityCostsNothing) {
  EXPECT_EQ(Regex("(a*)*(a|a)*(a?){30}b", std::string(1000, 'a')), "part");
  EXPECT_EQ(Regex("(x+x+)+y", std::string(1000, 'x') + "y"), "yes");
  EXPECT_EQ(Regex("(a|b)*a(a|b){12}", "ab" + std::string(13, 'a')), "yes");
}

}  // namespace
}  // namespace tutti::grammar
