// Parsing: refusals and the names in them, and the bounds of size and nesting.
#include "text/jinja/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "text/jinja/jinja_testing.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

using testing::HasSubstr;

// A template, and the name in its refusal.
struct Refusal {
  std::string_view source;
  std::string_view named;
};

TEST(LexerTest, TellsTheLine) {
  EXPECT_THAT(ParseError("a\nb\n{{ 'x\ny' }}\n{{ ? }}"), HasSubstr("line 5"));
  EXPECT_THAT(ParseError("{# a\n\n#}\n{%- if\n"), HasSubstr("line 4"));
}

constexpr Refusal kLexerRefusals[] = {{"{{ a", "tag does not end"},
                                      {"{% if a", "tag does not end"},
                                      {"{# a", "comment does not end"},
                                      {"{{ 'a }}", "string does not end"},
                                      {"{{ 'a\\", "string does not end"},
                                      {"{{ a ) }}", "unexpected \")\""},
                                      {"{{ (a] }}", "unexpected \"]\""},
                                      {"{{ (a }}", "\"}\""},
                                      {"{{ a $ b }}", "\"$\""},
                                      {"{{ a ; }}", "\";\""},
                                      {"{{ \u00e9 }}", "\"\u00e9\""},
                                      {"{{ '\\N{DASH}' }}", "\\N"},
                                      {"{{ '\\ud800' }}", "\\ud800"},
                                      {"{{ '\\U00110000' }}", "\\U00110000"},
                                      {"{{ '\\x4' }}", "\\x4"},
                                      {"{{ 12ab }}", "12a"},
                                      {"\xFF", "not valid UTF-8 at byte 0"}};

TEST(LexerTest, RefusesByName) {
  for (const auto& [source, named] : kLexerRefusals) {
    EXPECT_THAT(ParseError(source), HasSubstr(named)) << source;
  }
}

constexpr Refusal kParserRefusals[] = {
    {"{% do x %}", "statement \"do\""},
    {"{% 5 %}", "statement \"5\""},
    {"{% %}", "statement"},
    {"{% autoescape true %}{% endautoescape %}", "statement \"autoescape\""},
    {"{{ x | nope }}", "no filter named 'nope'"},
    {"{{ x | a.b }}", "no filter named 'a.b'"},
    {"{{ x is nope }}", "no test named 'nope'"},
    {"{% raw %}{{ x", "{% raw %} does not end"},
    {"{{ range(start=1, 2) }}", "positional argument follows"},
    {"{% for loop in y %}{% endfor %}", "\"loop\""},
    {"{% for a, (b, loop) in y %}{% endfor %}", "\"loop\""},
    {"{% set true = 1 %}", "cannot assign to \"true\""},
    {"{% break %}", "\"break\" outside of a for"},
    {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
     "\"continue\" outside"},
    {"{% call m %}{% endcall %}", "expected a call"},
    {"{% call m() %}", "expected {% endcall %}"},
    {"{% filter upper %}", "expected {% endfilter %}"},
    {"{% block x %}{% endblock %}{% block x %}{% endblock %}", "defined twice"},
    {"{% with a %}{% endwith %}", "\"=\""},
    {"{% macro m(1) %}{% endmacro %}", "name of a parameter"},
    {"{% set x.y.z = 1 %}", "expected \"=\""},
    {"{% set 5 = 1 %}", "name of a variable"},
    {"{% set a, b %}{% endset %}", "expected \"=\""},
    {"{% if x %}", "expected {% endif %}"},
    {"{% if x %}{% endfor %}", "statement \"endfor\""},
    {"{% for x in y %}", "expected {% endfor %}"},
    {"{% endif %}", "statement \"endif\""},
    {"{% if %}{% endif %}", "an expression"},
    {"{% if x y %}{% endif %}", "\"y\""},
    {"{{ }}", "an expression"},
    {"{{ a b }}", "\"b\""},
    {"{{ a. }}", "attribute"},
    {"{{ a[] }}", "\"]\""},
    {"{{ a[1:2:3:4] }}", "expected \"]\""},
    {"{{ a[1 2] }}", "expected \"]\""},
    {"{{ {1 2} }}", "\":\""},
    {"{{ [1 2] }}", "\",\""},
    {"{{ not }}", "an expression"},
    {"{{ 1 + }}", "an expression"},
    {"{{ a if }}", "an expression"},
    {"{{ a is }}", "name of a test"},
    {"{{ a | }}", "name of a filter"},
    {"{{ and }}", "\"and\""}};

TEST(ParserTest, RefusesWhatItDoesNotKnowByNameWhenParsing) {
  for (const auto& [source, named] : kParserRefusals) {
    EXPECT_THAT(ParseError(source), HasSubstr(named)) << source;
    EXPECT_THAT(ParseError(source), HasSubstr("line ")) << source;
  }
}

// As in Jinja: what may never be reached is an error only when it is.
TEST(ParserTest, UnknownFiltersInConditionsAreAccepted) {
  EXPECT_EQ(ParseError("{% if a %}{{ x|nope }}{% elif b is nope %}{% endif %}"), "accepted");
  EXPECT_EQ(ParseError("{{ (x|nope) if a else (x is nope) }}"), "accepted");
  EXPECT_EQ(RenderError("{{ (1|nope) if false else 'fine' }}"), "rendered fine");
  EXPECT_EQ(RenderError("{{ 1|nope if true }}"), "line 1: no filter named 'nope'");
  EXPECT_THAT(ParseError("{{ 1 if a }}{{ x|nope }}"), HasSubstr("no filter named 'nope'"));
}

TEST(ParserTest, SizeAndNestingAreBounded) {
  EXPECT_THAT(ParseError(std::string(kTemplateBytesMax + 1, 'a')), HasSubstr("at most"));
  const auto nested = [](std::string_view open, std::string_view inner, std::string_view close,
                         int n) {
    std::string source = "{{ ";
    for (int i = 0; i < n; ++i) source += open;
    source += inner;
    for (int i = 0; i < n; ++i) source += close;
    return source + " }}";
  };
  EXPECT_EQ(ParseError(nested("(", "1", ")", 50)), "accepted");
  for (const int depth : {kTemplateDepthMax + 1, 20000}) {
    EXPECT_THAT(ParseError(nested("(", "1", ")", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("[", "1", "]", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("{'a':", "1", "}", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("not ", "1", "", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("-", "1", "", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("1 if 1 else ", "1", "", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("1 + ", "1", "", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("", "x", ".a", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("", "x", "[0]", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("", "x", "|trim", depth)), HasSubstr("nests deeper"));
    EXPECT_THAT(ParseError(nested("range(", "1", ")", depth)), HasSubstr("nests deeper"));
    std::string ifs;
    for (int i = 0; i < depth && ifs.size() < kTemplateBytesMax - 20; ++i) ifs += "{%if 1%}";
    EXPECT_THAT(ParseError(ifs), HasSubstr("nests deeper"));
  }
  // Many siblings are not deep.
  std::string elifs = "{% if 0 %}";
  for (int i = 0; i < 3000; ++i) elifs += "{% elif 0 %}";
  EXPECT_EQ(ParseError(elifs + "{% endif %}"), "accepted");
}

}  // namespace
}  // namespace tutti::text::jinja
