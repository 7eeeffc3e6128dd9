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
                                      {"{{ '\\101' }}", "\\1"},
                                      {"{{ '\\ud800' }}", "\\ud800"},
                                      {"{{ '\\U00110000' }}", "\\U00110000"},
                                      {"{{ '\\x4' }}", "\\x4"},
                                      {"{{ 99999999999999999999 }}", "99999999999999999999"},
                                      {"{{ 1e999 }}", "1e999"},
                                      {"{{ 12ab }}", "12a"},
                                      {"\xFF", "not valid UTF-8 at byte 0"}};

TEST(LexerTest, RefusesByName) {
  for (const auto& [source, named] : kLexerRefusals) {
    EXPECT_THAT(ParseError(source), HasSubstr(named)) << source;
  }
}

constexpr Refusal kParserRefusals[] = {
    {"\n{% include 'x' %}", "line 2: statement \"include\""},
    {"{% raw %}x{% endraw %}", "statement \"raw\""},
    {"{% with a = 1 %}{% endwith %}", "statement \"with\""},
    {"{% call m() %}{% endcall %}", "statement \"call\""},
    {"{% filter upper %}{% endfilter %}", "statement \"filter\""},
    {"{% block x %}{% endblock %}", "statement \"block\""},
    {"{% import 'a' as b %}", "statement \"import\""},
    {"{% do x %}", "statement \"do\""},
    {"{% 5 %}", "statement \"5\""},
    {"{% %}", "statement"},
    {"{{ x | nope }}", "filter \"nope\""},
    {"{{ x | indent }}", "filter \"indent\""},
    {"{{ x is nope }}", "test \"nope\""},
    {"{{ nope(1) }}", "function \"nope\""},
    {"{{ range is defined }}", "function \"range\" without a call"},
    {"{{ x.nope() }}", "method \"nope\""},
    {"{{ x.append(1) }}", "method \"append\""},
    {"{{ x.format(1) }}", "method \"format\""},
    {"{{ x()() }}", "calling the result"},
    {"{{ x[0]() }}", "calling the result"},
    {"{{ x | trim(nope=1) }}", "filter \"trim\" has no argument \"nope\""},
    {"{{ x | trim(1, 2) }}", "filter \"trim\" takes at most 1"},
    {"{{ x | replace('a') }}", "filter \"replace\" needs the argument \"new\""},
    {"{{ x | trim(1, chars=2) }}", "given twice"},
    {"{{ x.split(sep='a', sep='b') }}", "given twice"},
    {"{{ x | map('nope') }}", "filter \"nope\""},
    {"{{ x | map(y) }}", "constant string"},
    {"{{ x | map(nope='y') }}", "no argument \"nope\""},
    {"{{ x | select('nope') }}", "test \"nope\""},
    {"{{ x | selectattr('a', 'nope') }}", "test \"nope\""},
    {"{{ x | select(test='odd') }}", "no argument \"test\""},
    {"{{ f(*x) }}", "\"*\" before an argument"},
    {"{{ range(**x) }}", "\"**\" before an argument"},
    {"{{ range(start=1, 2) }}", "positional argument follows"},
    {"{{ + 1 }}", "unary \"+\""},
    {"{% for x in y recursive %}{% endfor %}", "\"recursive\""},
    {"{% for x in y %}{{ loop.cycle('a') }}{% endfor %}", "\"loop.cycle\""},
    {"{% for x in y %}{{ loop.depth }}{% endfor %}", "\"loop.depth\""},
    {"{% for loop in y %}{% endfor %}", "\"loop\""},
    {"{% break %}", "\"break\" outside of a for"},
    {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
     "\"continue\" outside"},
    {"{% macro m() %}{{ varargs }}{% endmacro %}", "\"varargs\""},
    {"{% macro m(1) %}{% endmacro %}", "name of a parameter"},
    {"{% set x | upper %}a{% endset %}", "filter on {% set %}"},
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
