// Rendering: the origin of text, errors and limits. That rendering agrees with Jinja itself is
// checked by text_golden_test.
#include "text/jinja/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "text/jinja/format.h"
#include "text/jinja/jinja_testing.h"
#include "text/jinja/parser.h"
#include "text/jinja/strings.h"

namespace tutti::text::jinja {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TextTest, KeepsTheOriginOfEveryByte) {
  Text text("own", false);
  text.Append("user", true);
  text.Append("", false);
  text.Append("more", true);
  text.Append("end", false);
  EXPECT_EQ(Marked(text), "own[usermore]end");
  EXPECT_EQ(text.runs().size(), 3u);
  EXPECT_EQ(Marked(text.Substr(2, 3)), "n[us]");
  EXPECT_EQ(Marked(text.Substr(3, 8)), "[usermore]");
  EXPECT_EQ(Marked(text.Substr(0, 0)), "");
  EXPECT_EQ(Marked(text.Substr(14, 0)), "");
  Text twice = text;
  twice.Append(text);
  EXPECT_EQ(Marked(twice), "own[usermore]endown[usermore]end");
}

// The result of every operation of a template on user text is still the user's.
TEST(OriginTest, EveryOperationKeepsIt) {
  EXPECT_EQ(RenderMarked("a{{ u }}b"), "a[user]b");
  EXPECT_EQ(RenderMarked("{{ 'a' + u + 'b' }}"), "a[user]b");
  EXPECT_EQ(RenderMarked("{{ 'a' ~ u ~ n ~ 1 }}"), "a[user7]1");
  EXPECT_EQ(RenderMarked("{{ n + 1 }}{{ -n }}{{ n * 2.5 }}{{ 3 }}"), "[8-717.5]3");
  EXPECT_EQ(RenderMarked("{{ u[0] }}{{ u[1:] }}{{ u[::-1] }}"), "[userresu]");
  EXPECT_EQ(RenderMarked("{{ (u + ' ')|trim }}{{ u.strip('u') }}"), "[userser]");
  EXPECT_EQ(RenderMarked("{{ u|upper }}{{ u.lower() }}{{ u|capitalize }}"), "[USERuserUser]");
  EXPECT_EQ(RenderMarked("{{ ('x' + u)|upper }}"), "X[USER]");
  EXPECT_EQ(RenderMarked("{{ u.split('s')[1] }}{{ u.replace('s', '-') }}"), "[eru]-[er]");
  EXPECT_EQ(RenderMarked("{{ 'a-b'.replace('-', u) }}"), "a[user]b");
  EXPECT_EQ(RenderMarked("{{ l|join(',') }}{{ ','.join(l) }}"), "[a],[ba],[b]");
  EXPECT_EQ(RenderMarked("{{ ['x','y']|join(u) }}"), "x[user]y");
  EXPECT_EQ(RenderMarked("{{ l|first }}{{ l|last }}{{ l|reverse|join }}"), "[abba]");
  EXPECT_EQ(RenderMarked("{{ l }}"), "[['a'], ['b']]");
  EXPECT_EQ(RenderMarked("{{ d }}"), "{['k']: ['v']}");
  EXPECT_EQ(RenderMarked("{{ d|tojson }}|{{ {'a': 1}|tojson }}"), "[{\"k\": \"v\"}]|{\"a\": 1}");
  EXPECT_EQ(RenderMarked("{{ [n]|tojson }}{{ n|string }}{{ u|string }}"), "[[7]7user]");
  EXPECT_EQ(RenderMarked("{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}"), "[k]=[v]");
  EXPECT_EQ(RenderMarked("{% for c in u %}{{ c }}.{% endfor %}"), "[u].[s].[e].[r].");
  EXPECT_EQ(RenderMarked("{% set x %}<{{ u }}>{% endset %}{{ x }}"), "<[user]>");
  EXPECT_EQ(RenderMarked("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(u) }}{{ m('b') }}"),
            "<[user]><b>");
  EXPECT_EQ(RenderMarked("{{ u * 2 }}{{ u|default('x') }}{{ u or 'x' }}"), "[useruseruseruser]");
  EXPECT_EQ(RenderMarked("{{ '5'|int }}{{ (u|length) }}{{ l|map('upper')|join }}"), "54[AB]");
  EXPECT_EQ(RenderMarked("{{ n|float }}{{ n|abs }}{{ n|int }}"), "[7.077]");
}

// Stripping looks for each character of the text in all that were given: that is work, too.
TEST(EvaluatorTest, StrippingLongSetsOfCharactersIsCharged) {
  for (const std::string call : {"u.strip(c)", "u.lstrip(c)", "u.rstrip(c)", "u|trim(c)"}) {
    const auto text = Render(
        absl::StrCat("{{ ", call, " }}"),
        {{"u", User(std::string(4 << 20, 'a'))}, {"c", User(std::string(4 << 20, 'b') + "a")}});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kResourceExhausted) << call;
  }
  EXPECT_EQ(RenderMarked("{{ u.strip('ur') }}"), "[se]");
}

TEST(EvaluatorTest, TellsTheTimeItIsGiven) {
  const auto render = [](std::string_view source, std::optional<absl::Time> now) {
    const auto parsed = ParseTemplate(source);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    const auto text = Evaluate(**parsed, {}, now);
    return text.ok() ? std::string(text->bytes()) : std::string(text.status().message());
  };
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %H:%M:%S %A %%') }}", now),
            "14 Nov 2023, 22:13:20 Tuesday %");
  EXPECT_EQ(render("{{ strftime_now is defined }}", now), "True");
  EXPECT_EQ(render("{{ strftime_now is defined }}", std::nullopt), "False");
  EXPECT_THAT(render("{{ strftime_now('%d') }}", std::nullopt), HasSubstr("is undefined"));
  EXPECT_EQ(render("{{ strftime_now('%-d|%f|%z|%Q|%') }}", now), "14|000000||%Q|%");
  EXPECT_THAT(render("{{ strftime_now('%999999999d') }}", now), HasSubstr("too long"));
}

TEST(EvaluatorTest, ErrorsNameTheLine) {
  EXPECT_EQ(RenderError("a\n{{ x.y }}"), "line 2: 'x' is undefined");
  EXPECT_EQ(RenderError("{% if 1 %}\n\n{{ {}.a.b }}{% endif %}"),
            "line 3: 'dict object' has no attribute 'a'");
  EXPECT_EQ(RenderError("{{ 'a' + 1 }}"),
            "line 1: unsupported operand types for +: 'str' and 'int'");
  EXPECT_EQ(RenderError("{{ 5 | tojson(indent=99999) }}"), "line 1: tojson: an indent beyond 4300");
}

TEST(EvaluatorTest, WhatTheTemplateRaisesComesAsItIs) {
  EXPECT_EQ(RenderError("\n{{ raise_exception('Roles must alternate') }}"), "Roles must alternate");
  EXPECT_EQ(Render("{{ raise_exception('x') }}").status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A method is a value, which has no text; what would change a list or dict is not there, as in the
// sandbox of transformers.
TEST(EvaluatorTest, MethodsAreValues) {
  EXPECT_EQ(RenderError("{{ {}.items is callable }}{{ [].append is defined }}"),
            "rendered TrueFalse");
  EXPECT_THAT(RenderError("{{ {}.items }}"), HasSubstr("cannot be written as text"));
  EXPECT_EQ(RenderError("{{ [].append(1) }}"),
            "line 1: access to attribute 'append' of 'list' object is unsafe.");
  EXPECT_EQ(RenderError("{{ {'items': 1}['items'] }}"), "rendered 1");
  EXPECT_EQ(RenderError("{% set f = 'a'.upper %}{{ f() }}"), "rendered A");
}

// A result of select and its kin is read once, and true even where nothing is left.
TEST(EvaluatorTest, GeneratorsAreReadOnce) {
  EXPECT_EQ(RenderError("{% set g = [1, 2]|select('odd') %}{{ g|list }}{{ g|list }}"),
            "rendered [1][]");
  EXPECT_EQ(RenderError("{{ 'true' if []|select }}{{ none|selectattr('a')|list }}"),
            "rendered true[]");
  EXPECT_THAT(RenderError("{{ []|select|length }}"), HasSubstr("no len()"));
}

TEST(EvaluatorTest, IntegersAreAsLongAsPythons) {
  EXPECT_EQ(RenderError("{{ 9223372036854775807 + 1 }} {{ -9223372036854775807 - 2 }}"),
            "rendered 9223372036854775808 -9223372036854775809");
  EXPECT_EQ(RenderError("{{ 2 ** 70 }} {{ (2 ** 70) % -7 }} {{ -(2 ** 70) // 3 }}"),
            "rendered 1180591620717411303424 -5 -393530540239137101142");
  EXPECT_EQ(RenderError("{{ 2 ** 70 - 2 ** 70 + 1 }} {{ (2 ** 64)|tojson }} {{ 2 ** 64 > 1 }}"),
            "rendered 1 18446744073709551616 True");
  EXPECT_EQ(RenderError("{{ (-9223372036854775807 - 1) % -1 }}"), "rendered 0");
  EXPECT_EQ(RenderError("{{ 0xFF }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }}"), "rendered 255 3 15 1000");
  for (const char* source : {"{{ 10 ** 5000 }}", "{{ 10 ** (10 ** 30) }}",
                             "{% set ns = namespace(a=9) %}{% for i in range(60) %}{% set ns.a = "
                             "ns.a * ns.a %}{% endfor %}"}) {
    EXPECT_THAT(RenderError(source), HasSubstr("more than 4300 digits")) << source;
  }
}

TEST(EvaluatorTest, CharactersMayBecomeSeveral) {
  EXPECT_EQ(RenderError("{{ 'ß ﬁ'|upper }} {{ 'ﬁn'|capitalize }} {{ 'İ'|lower|length }}"),
            "rendered SS FI Fin 2");
  EXPECT_EQ(RenderError("{{ 'ΑΣ ΣΑ Σ'|lower }}"), "rendered ας σα σ");
  EXPECT_EQ(RenderMarked("{{ (u ~ 'ß')|upper }}"), "[USER]SS");
}

TEST(EvaluatorTest, MarkupEscapesWhatIsAddedToIt) {
  EXPECT_EQ(RenderError("{{ ('<b>'|safe) + '<' }} {{ ('<b>'|safe) ~ '<' }} {{ '<'|e|e }}"),
            "rendered <b>&lt; <b>< &lt;");
}

TEST(EvaluatorTest, BlocksAndCalls) {
  EXPECT_EQ(RenderError("{% filter upper %}a{% endfilter %}{% raw %}{{ x }}{% endraw %}"),
            "rendered A{{ x }}");
  EXPECT_EQ(RenderError("{% with a = 1 %}{{ a }}{% endwith %}{{ a is defined }}"),
            "rendered 1False");
  EXPECT_EQ(RenderError("{% block b %}x{% endblock %}{{ self.b() }}"), "rendered xx");
  EXPECT_EQ(RenderError("{% macro m() %}<{{ caller(2) }}>{% endmacro %}"
                        "{% call(a) m() %}{{ a }}{% endcall %}"),
            "rendered <2>");
  EXPECT_EQ(RenderError("{% for i in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{% endfor %}"),
            "rendered aba");
  EXPECT_EQ(RenderError("{% for i in [1, [2]] recursive %}{% if i is number %}{{ i }}{% else %}"
                        "({{ loop(i) }}){% endif %}{% endfor %}"),
            "rendered 1(2)");
  EXPECT_THAT(RenderError("{% include 'x' %}"), HasSubstr("no other templates to load"));
}

// A macro sees the variables around its definition, also where it outlives them.
TEST(EvaluatorTest, MacrosKeepTheirScopes) {
  EXPECT_EQ(RenderError("{% set ns = namespace() %}{% for i in [1, 2] %}{% macro m() %}{{ i }}"
                        "{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}"),
            "rendered 2");
  EXPECT_EQ(RenderError("{% set ns = namespace() %}{% for i in [1] recursive %}{% set ns.l = loop "
                        "%}{% endfor %}{{ ns.l([2]) }}"),
            "line 1: the loop has ended and cannot be called");
}

TEST(EvaluatorTest, MacrosCheckTheirArguments) {
  const std::string macro = "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}";
  EXPECT_EQ(RenderError(macro + "{{ m(1) }}{{ m(1, b=2) }}"), "rendered 1112");
  EXPECT_THAT(RenderError(macro + "{{ m(1, 2, 3) }}"), HasSubstr("takes not more than 2"));
  EXPECT_THAT(RenderError(macro + "{{ m(c=3) }}"), HasSubstr("no keyword argument 'c'"));
  EXPECT_THAT(RenderError(macro + "{{ m(1, a=3) }}"), HasSubstr("no keyword argument 'a'"));
  EXPECT_THAT(RenderError("{{ m() }}" + macro), HasSubstr("undefined"));
  EXPECT_THAT(RenderError("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("nested more than"));
  EXPECT_EQ(RenderError("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% else %}x{% endif %}"
                        "{% endmacro %}{{ m(100) }}"),
            "rendered x");
}

// Found by libFuzzer: a variable that is not there ended the process.
TEST(EvaluatorTest, RangesAreOfIntegers) {
  for (const std::string source :
       {"{{ range(x) }}", "{{ range(x, 9) }}", "{{ range(x, 9, 2) }}", "{{ range(x, y, z) }}"}) {
    EXPECT_EQ(RenderError(source), "line 1: 'x' is undefined") << source;
  }
  for (const std::string source :
       {"{{ range('1') }}", "{{ range(1.5) }}", "{{ range(1, none) }}", "{{ range(1, 2, []) }}"}) {
    EXPECT_THAT(RenderError(source), HasSubstr("int")) << source;
  }
  EXPECT_EQ(RenderError("{{ range(1, 9, 3)|list }}{{ range(2) }}"),
            "rendered [1, 4, 7]range(0, 2)");
}

// Everything that could take long or much ends with an error instead, soon.
TEST(EvaluatorTest, WorkIsBounded) {
  for (const std::string& source : std::vector<std::string>{
           "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
           "{{ range(1000000000000) }}",
           "{{ range(0, 9223372036854775807, 4611686018427387904)|length }}{{ "
           "range(1000000000)|length }}",
           "{% set ns = namespace(s='0123456789abcdef') %}{% for i in range(60) %}{% set ns.s = "
           "ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% "
           "endfor %}",
           "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = "
           "ns.s.replace('a', ns.s) %}{% endfor %}",
           "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = [ns.s, "
           "ns.s]|join %}{% endfor %}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% "
           "endfor %}",
           "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% "
           "endfor %}",
           "{% set ns = namespace(s={}) %}{% for i in range(60) %}{% set ns.s = {'a': ns.s, 'b': "
           "ns.s} %}{% endfor %}{{ ns.s == ns.s }}",
           "{{ 'x' * 1000000000000 }}",
           "{{ [1] * 1000000000000 }}",
           "{{ 'a'.ljust(2000000000) }}",
           "{% set l = range(9999)|list * 9 %}{% for i in l %}{{ l|sort|length }}{% endfor %}",
           "{% set l = range(9999)|list * 9 %}{{ l|unique|length }}",
           "{% set s = 'Σ' * 1000000 %}{% for i in range(1000) %}{{ s|lower|length }}{% endfor %}",
           "{{ ('x' * 30000000) ~ ('x' * 30000000) }}",
           "{% set s = 'x' * 30000000 %}{{ s }}{{ s }}",
           "{% set s = 'ab ' * 5000000 %}{% for i in range(1000) %}{% set t = s.split() %}{% "
           "endfor %}",
           "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set t = s == s + 'a' %}{% "
           "endfor %}",
           "{% set s = 'a' * 10000000 %}{% set n = 'a' * 100000 ~ 'b' %}{% for i in range(1000) "
           "%}{{ n in s }}{% endfor %}",
           "{% set ns = namespace() %}{% for i in range(10000000) %}{% set ns.a = namespace(b=ns) "
           "%}{% endfor %}"}) {
    const auto text = Render(source);
    ASSERT_FALSE(text.ok()) << source;
    EXPECT_EQ(text.status().code(), absl::StatusCode::kResourceExhausted)
        << source << ": " << text.status();
  }
}

TEST(EvaluatorTest, ListsNestOnlySoDeep) {
  EXPECT_THAT(RenderError("{% set ns = namespace(s=[]) %}{% for i in range(100000) %}{% set ns.s = "
                          "[ns.s] %}{% endfor %}"),
              HasSubstr("nests deeper than"));
  EXPECT_THAT(RenderError("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"),
              HasSubstr("namespace"));
}

TEST(FormatTest, FloatsAsPythonWritesThem) {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
           {0, "0.0"},
           {-0.0, "-0.0"},
           {1, "1.0"},
           {0.1, "0.1"},
           {1e15, "1000000000000000.0"},
           {1e16, "1e+16"},
           {123456789012345680.0, "1.2345678901234568e+17"},
           {1e-4, "0.0001"},
           {1e-5, "1e-05"},
           {2.5e-7, "2.5e-07"},
           {1.7976931348623157e308, "1.7976931348623157e+308"},
           {5e-324, "5e-324"},
           {1.0 / 3, "0.3333333333333333"}}) {
    EXPECT_EQ(FloatRepr(value), text);
  }
}

TEST(StringsTest, SliceIndicesAreThoseOfPython) {
  using testing::IsEmpty;
  EXPECT_THAT(SliceIndices(4, {}, {}, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(SliceIndices(4, {}, {}, -1), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(SliceIndices(4, -2, {}, 1), ElementsAre(2, 3));
  EXPECT_THAT(SliceIndices(4, -9, 9, 2), ElementsAre(0, 2));
  EXPECT_THAT(SliceIndices(4, 9, -9, -3), ElementsAre(3, 0));
  EXPECT_THAT(SliceIndices(4, 2, 2, 1), IsEmpty());
  EXPECT_THAT(SliceIndices(0, {}, {}, -1), IsEmpty());
  EXPECT_THAT(SliceIndices(4, {}, {}, std::numeric_limits<int64_t>::max()), ElementsAre(0));
  EXPECT_THAT(SliceIndices(4, {}, {}, std::numeric_limits<int64_t>::min()), ElementsAre(3));
  EXPECT_THAT(
      SliceIndices(4, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 1)
          .size(),
      4);
}

}  // namespace
}  // namespace tutti::text::jinja
