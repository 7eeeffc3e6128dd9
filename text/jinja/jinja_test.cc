// Parsing and its refusals, limits, and the origin of text. That rendering agrees with Jinja itself
// is checked by text_golden_test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/format.h"
#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"
#include "text/jinja/strings.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ParseError(std::string_view source) {
  const auto parsed = ParseTemplate(source);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

absl::StatusOr<Text> Render(std::string_view source,
                            std::vector<std::pair<std::string, Value>> variables = {}) {
  TUTTI_ASSIGN_OR_RETURN(const auto parsed, ParseTemplate(source));
  return Evaluate(*parsed, std::move(variables), std::nullopt);
}

std::string RenderError(std::string_view source) {
  const auto text = Render(source);
  return text.ok() ? absl::StrCat("rendered ", std::string(text->bytes()))
                   : std::string(text.status().message());
}

// The user's parts in brackets.
std::string Marked(const Text& text) {
  std::string out;
  size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    const std::string part(text.bytes().substr(begin, run.end - begin));
    out += run.from_user ? "[" + part + "]" : part;
    begin = run.end;
  }
  return out;
}

Value User(std::string text) { return Value::Str(Text(std::move(text), true)); }

std::string RenderMarked(std::string_view source) {
  std::vector<std::pair<Text, Value>> items = {{Text("k", true), User("v")}};
  std::vector<std::pair<std::string, Value>> variables = {
      {"u", User("user")},
      {"n", Value::Int(7, true)},
      {"l", *Value::MakeList({User("a"), User("b")})},
      {"d", *Value::MakeDict(std::move(items))}};
  const auto text = Render(source, std::move(variables));
  EXPECT_TRUE(text.ok()) << source << ": " << text.status();
  return text.ok() ? Marked(*text) : "";
}

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

// Whatever a template does with user text, what comes of it is still the user's.
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

TEST(LexerTest, TellsTheLine) {
  EXPECT_THAT(ParseError("a\nb\n{{ 'x\ny' }}\n{{ ? }}"), HasSubstr("line 5"));
  EXPECT_THAT(ParseError("{# a\n\n#}\n{%- if\n"), HasSubstr("line 4"));
}

TEST(LexerTest, RefusesByName) {
  for (const auto& [source, named] : std::vector<std::pair<std::string, std::string>>{
           {"{{ a", "tag does not end"},
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
           {"\xFF", "not valid UTF-8 at byte 0"}}) {
    EXPECT_THAT(ParseError(source), HasSubstr(named)) << source;
  }
}

TEST(ParserTest, RefusesWhatItDoesNotKnowByNameWhenParsing) {
  for (const auto& [source, named] : std::vector<std::pair<std::string, std::string>>{
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
           {"{{ and }}", "\"and\""}}) {
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

// --- The deepest templates ---

std::string Repeated(std::string_view piece, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += piece;
  return out;
}

// `make(n)` for the largest n that is accepted.
std::string Deepest(const std::function<std::string(int)>& make) {
  int n = kTemplateDepthMax;
  while (n > 0 && ParseError(make(n)) != "accepted") --n;
  return make(n);
}

// What `source` renders on a thread whose stack is smaller than any that servers get.
std::string RenderOnSmallStack(const std::string& source) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kStackBytes = 16 << 20;  // their frames are many times larger
#else
  constexpr size_t kStackBytes = 2 << 20;
#endif
  struct Job {
    const std::string& source;
    std::string result;
  } job{source, ""};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  CHECK(pthread_attr_setstacksize(&attributes, kStackBytes) == 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    auto* job = static_cast<Job*>(argument);
    const auto text = Render(job->source);
    job->result = text.ok() ? std::string(text->bytes()) : std::string(text.status().message());
    return nullptr;
  };
  CHECK(pthread_create(&thread, &attributes, run, &job) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return job.result;
}

std::string NestedIfs(int n) {
  return Repeated("{% if 1 %}", n) + "x" + Repeated("{% endif %}", n);
}

// A block takes one level, an expression two: the condition of the innermost if needs three.
TEST(NestingTest, AllButTheLastLevelsAreForBlocks) {
  EXPECT_EQ(ParseError(NestedIfs(kTemplateDepthMax - 3)), "accepted");
  EXPECT_THAT(ParseError(NestedIfs(kTemplateDepthMax)), HasSubstr("nests deeper"));
}

TEST(NestingTest, TheDeepestTemplatesFitTheStack) {
  EXPECT_EQ(RenderOnSmallStack(Deepest(NestedIfs)), "x");
  EXPECT_EQ(RenderOnSmallStack(Deepest([](int n) {
              return Repeated("{% for i in [1] %}", n) + "x" + Repeated("{% endfor %}", n);
            })),
            "x");
  EXPECT_EQ(RenderOnSmallStack(Deepest([](int n) {
              return "{{ " + Repeated("(1 + ", n) + "0" + Repeated(")", n) + " > 9 }}";
            })),
            "True");
  EXPECT_EQ(RenderOnSmallStack(Deepest(
                [](int n) { return "{{ " + Repeated("[", n) + Repeated("]", n) + "|length }}"; })),
            "1");
}

TEST(NestingTest, TheDeepestMacrosFitTheStack) {
  const auto source = [](int n) {
    std::string macros;
    for (int i = 0; i < kTemplateMacroDepthMax; ++i) {
      const std::string inner = i == 0 ? std::string("x") : absl::StrCat("{{ m", i - 1, "() }}");
      absl::StrAppend(&macros, "{% macro m", i, "() %}", Repeated("{% if 1 %}", n), inner,
                      Repeated("{% endif %}", n), "{% endmacro %}");
    }
    return absl::StrCat(macros, "{{ m", kTemplateMacroDepthMax - 1, "() }}");
  };
  EXPECT_EQ(RenderOnSmallStack(Deepest(source)), "x");
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
  for (const std::string bad : {"%E4S", "%-d", "%", "%Q"}) {
    EXPECT_THAT(render(absl::StrCat("{{ strftime_now('", bad, "') }}"), now),
                HasSubstr("is not supported"));
  }
}

TEST(EvaluatorTest, ErrorsNameTheLine) {
  EXPECT_EQ(RenderError("a\n{{ x.y }}"), "line 2: 'x' is undefined");
  EXPECT_EQ(RenderError("{% if 1 %}\n\n{{ {}.a.b }}{% endif %}"),
            "line 3: 'dict object' has no attribute 'a'");
  EXPECT_EQ(RenderError("{{ 'a' + 1 }}"),
            "line 1: unsupported operand types for +: 'str' and 'int'");
  EXPECT_EQ(RenderError("{{ 5 | tojson(indent=99) }}"),
            "line 1: tojson: indent is not an integer from 0 to 16");
}

TEST(EvaluatorTest, WhatTheTemplateRaisesComesAsItIs) {
  EXPECT_EQ(RenderError("\n{{ raise_exception('Roles must alternate') }}"), "Roles must alternate");
  EXPECT_EQ(Render("{{ raise_exception('x') }}").status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Where Jinja would give a method and the template means a key, neither is a good answer.
TEST(EvaluatorTest, MethodsThatAreNotCalledAreErrors) {
  EXPECT_THAT(RenderError("{{ {}.items }}"), HasSubstr("\"items\" is a method of dict"));
  EXPECT_THAT(RenderError("{{ {}['items'] }}"), HasSubstr("\"items\" is a method of dict"));
  EXPECT_THAT(RenderError("{{ [].append }}"), HasSubstr("\"append\" is a method of list"));
  EXPECT_THAT(RenderError("{{ ''.strip }}"), HasSubstr("\"strip\" is a method of str"));
  EXPECT_EQ(RenderError("{{ {'items': 1}['items'] }}"), "rendered 1");
}

TEST(EvaluatorTest, IntegersDoNotWrapAround) {
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ -9223372036854775807 - 2 }}",
        "{{ 9223372036854775807 * 2 }}", "{{ 2 ** 63 }}", "{{ 10 ** 100 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ (-9223372036854775807 - 1)|abs }}",
        "{{ -(-9223372036854775807 - 1) }}"}) {
    EXPECT_THAT(RenderError(source), HasSubstr("integer overflow")) << source;
  }
  EXPECT_EQ(RenderError("{{ (-9223372036854775807 - 1) % -1 }}"), "rendered 0");
  EXPECT_EQ(RenderError("{{ (-2) ** 63 }}"), "rendered -9223372036854775808");
}

TEST(EvaluatorTest, MacrosCheckTheirArguments) {
  const std::string macro = "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}";
  EXPECT_EQ(RenderError(macro + "{{ m(1) }}{{ m(1, b=2) }}"), "rendered 1112");
  EXPECT_THAT(RenderError(macro + "{{ m(1, 2, 3) }}"), HasSubstr("takes no argument number 3"));
  EXPECT_THAT(RenderError(macro + "{{ m(c=3) }}"), HasSubstr("takes no argument 'c'"));
  EXPECT_THAT(RenderError(macro + "{{ m(1, a=3) }}"), HasSubstr("is given 'a' twice"));
  EXPECT_THAT(RenderError("{{ m() }}" + macro), HasSubstr("not callable"));
  EXPECT_THAT(RenderError("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("macros call each other"));
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
  EXPECT_EQ(RenderError("{{ range(1, 9, 3)|list }}"), "rendered [1, 4, 7]");
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
           "{{ 'x' * 1000000000000 }}", "{{ ('x' * 30000000) ~ ('x' * 30000000) }}",
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

// Templates put together at random: they parse and render, or are refused, and soon.
TEST(JinjaFuzzTest, RandomTemplatesEndSoonAndWell) {
  static constexpr std::string_view kParts[] = {"{{ ",
                                                " }}",
                                                "{%- ",
                                                " -%}",
                                                "{% ",
                                                " %}",
                                                "if ",
                                                "elif ",
                                                "else",
                                                "endif",
                                                "for x in ",
                                                "endfor",
                                                "set x = ",
                                                "set ns.a = ",
                                                "endset",
                                                "macro m(a)",
                                                "endmacro",
                                                "m(x)",
                                                "namespace(a=1)",
                                                "ns",
                                                "messages",
                                                "x",
                                                "loop.index",
                                                "1",
                                                "2.5",
                                                "'a'",
                                                "\"b\\n\"",
                                                "[1, 2]",
                                                "(1,)",
                                                "{'k': x}",
                                                " + ",
                                                " - ",
                                                " * ",
                                                " // ",
                                                " % ",
                                                " ~ ",
                                                " and ",
                                                " or ",
                                                " not ",
                                                " in ",
                                                " is defined",
                                                " is not none",
                                                " == ",
                                                " < ",
                                                "|trim",
                                                "|length",
                                                "|tojson",
                                                "|join(',')",
                                                "|map('upper')",
                                                "|select('odd')",
                                                "|first",
                                                "|replace('a', 'bb')",
                                                ".split(',')",
                                                ".strip()",
                                                ".items()",
                                                "[0]",
                                                "[::-1]",
                                                ".role",
                                                "range(5)",
                                                "range(99999)",
                                                "(",
                                                ")",
                                                "[",
                                                "]",
                                                "{",
                                                "}",
                                                ",",
                                                ":",
                                                ".",
                                                "\n",
                                                "text ",
                                                "{# c #}",
                                                "break",
                                                "continue",
                                                "if x else ",
                                                "\xC3\xA9"};
  constexpr uint64_t kSeed = 41;
  Random random(kSeed);
  int rendered = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string source;
    for (int64_t n = random.Between(1, 14); n > 0; --n) {
      // Whole expressions often, so that some templates are well-formed.
      const auto part = [&] { return kParts[random.Between(0, std::ssize(kParts) - 1)]; };
      if (random.Chance(0.4)) {
        source += absl::StrCat(
            "{{ ", std::string(kParts[random.Between(19, 29)]),
            std::string(kParts[random.Between(30, 55)]),
            random.Chance(0.5) ? std::string(kParts[random.Between(19, 29)]) : "", " }}");
      } else {
        source += part();
      }
    }
    const auto text = Render(source, {{"messages", *Value::MakeList({User("u"), Value::Int(3)})}});
    if (text.ok()) {
      ++rendered;
    } else {
      ASSERT_FALSE(text.status().message().empty());
      ASSERT_NE(text.status().code(), absl::StatusCode::kInternal);
    }
  }
  EXPECT_GT(rendered, 300);
}

}  // namespace
}  // namespace tutti::text::jinja
