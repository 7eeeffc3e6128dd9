// Rules of Python that templates meet with values of unusual kinds. Each expectation is what jinja2
// gives; tests/templates/sweep_test.py asks it for all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "text/jinja/jinja_testing.h"

namespace tutti::text::jinja {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The text that {{ expression }} gives.
std::string Shown(std::string_view expression) {
  const std::string out = RenderError(absl::StrCat("{{ ", std::string(expression), " }}"));
  return out.starts_with("rendered ") ? out.substr(9) : absl::StrCat("error: ", out);
}

bool IsRefused(std::string_view expression) { return Shown(expression).starts_with("error: "); }

TEST(PythonRulesTest, IntegersAreDividedExactly) {
  EXPECT_EQ(Shown("(2 ** 64 - 1) / 3"), "6.148914691236517e+18");
  EXPECT_EQ(Shown("10 ** 400 / 10 ** 399"), "10.0");
  EXPECT_EQ(Shown("0 / -2"), "-0.0");
  EXPECT_EQ(Shown("9007199254740993 / 1"), "9007199254740992.0");
  EXPECT_EQ(Shown("-(10 ** 400) / 10 ** 400"), "-1.0");
  EXPECT_TRUE(IsRefused("10 ** 400 / 2"));
  EXPECT_TRUE(IsRefused("1 / 0"));
}

// Below the least normal float there are fewer bits to round to: rounded to 53 first, the first of
// these would be 2 and a half of the least float, and that is even.
TEST(PythonRulesTest, TheSmallestQuotientsAreRoundedOnce) {
  EXPECT_EQ(Shown("(5 * 2 ** 59 + 1) / 2 ** 1134"), "1.5e-323");
  EXPECT_EQ(Shown("-5 * 2 ** 59 / 2 ** 1134"), "-1e-323");
  EXPECT_EQ(Shown("(5 * 2 ** 59 - 1) / 2 ** 1134"), "1e-323");
  EXPECT_EQ(Shown("(2 ** 60 + 1) / 2 ** 1135"), "5e-324");
  EXPECT_EQ(Shown("1 / 2 ** 1075"), "0.0");
  EXPECT_EQ(Shown("-1 / 2 ** 1076"), "-0.0");
  EXPECT_EQ(Shown("(2 ** 53 - 1) / 2 ** 1075"), "2.2250738585072014e-308");
}

TEST(PythonRulesTest, LongIntegersCompareByTheirDigits) {
  EXPECT_EQ(Shown("[0 - 10 ** 40, 10 ** 30, 5, 0 - 10 ** 41, 10 ** 30 + 1]|sort"),
            absl::StrCat("[-1", std::string(41, '0'), ", -1", std::string(40, '0'), ", 5, 1",
                         std::string(30, '0'), ", 1", std::string(29, '0'), "1]"));
  EXPECT_EQ(Shown("10 ** 30 == 10 ** 30 and not 0 - 10 ** 30 == 10 ** 30"), "True");
  EXPECT_EQ(Shown("'{:b} {:o} {:x}'.format(2 ** 70 + 5, 2 ** 70 + 8, 0 - 2 ** 70 - 255)"),
            absl::StrCat("1", std::string(67, '0'), "101 2", std::string(21, '0'), "10 -4",
                         std::string(15, '0'), "ff"));
}

// json.dumps refuses them only where it would write them.
TEST(PythonRulesTest, SeparatorsThatAreNoStrings) {
  EXPECT_EQ(Shown("'a'|tojson(separators=(1, 2))"), "\"a\"");
  EXPECT_EQ(Shown("[]|tojson(indent=1, separators=(1, 2))"), "[]");
  EXPECT_EQ(Shown("[1, []]|tojson(indent=0, separators=(';', 2))"), "[\n1;\n[]\n]");
  for (const char* expression :
       {"[]|tojson(separators=(1, 2))", "1|tojson(separators=(',', 2))",
        "[1]|tojson(indent=0, separators=(1, ':'))", "'a'|tojson(separators=(1, 2, 3))",
        "[{'a': 1}]|tojson(indent=0, separators=(',', 2))", "'a'|tojson(separators=5)"}) {
    EXPECT_TRUE(IsRefused(expression)) << expression;
  }
}

TEST(PythonRulesTest, IntegersBeyondFloatsAreRefusedAsFloats) {
  for (const std::string_view expression :
       {"10 ** 400 + 0.5", "(10 ** 400)|float", "'%f' % 10 ** 400", "'{:e}'.format(10 ** 400)",
        "(10 ** 400) ** -1", "'1e999'|float|int"}) {
    EXPECT_TRUE(IsRefused(expression)) << expression;
  }
}

TEST(PythonRulesTest, IntegersAndFloatsCompareExactly) {
  EXPECT_EQ(Shown("9007199254740993 > 9007199254740992.0"), "True");
  EXPECT_EQ(Shown("2 ** 80 + 1 < 2.0 ** 80"), "False");
  EXPECT_EQ(Shown("-(2 ** 80) - 1 < -(2.0 ** 80)"), "True");
  EXPECT_EQ(Shown("10 ** 400 < '1e999'|float"), "True");
  EXPECT_EQ(Shown("-(10 ** 400) > '-1e999'|float"), "True");
}

TEST(PythonRulesTest, PercentTakesMappings) {
  EXPECT_EQ(Shown("'abc' % nope"), "abc");
  EXPECT_EQ(Shown("'abc' % [1]"), "abc");
  EXPECT_TRUE(IsRefused("'abc' % {}.items()"));
  EXPECT_TRUE(IsRefused("'abc' % 'x'"));
  EXPECT_TRUE(IsRefused("'%(b)s%s' % {'b': 1}"));
  EXPECT_EQ(Shown("'%(A(c))s' % {'A(c)': 1}"), "1");
  EXPECT_EQ(Shown("'%*d' % (true, 5)"), "5");
  EXPECT_TRUE(IsRefused("'%5%' % ()"));
  EXPECT_EQ(Shown("('%d|%f'|safe) % ('12', '1.5')"), "12|1.500000");
  EXPECT_TRUE(IsRefused("('%c'|safe) % 'a'"));
}

TEST(PythonRulesTest, FormatSpecsFitTheirType) {
  EXPECT_EQ(Shown("'{:5.1}'.format(2.5)"), "2e+00");
  EXPECT_EQ(Shown("'{:5.3}'.format(2.5)"), "  2.5");
  EXPECT_EQ(Shown("'{:08,}'.format(3)"), "0,000,003");
  EXPECT_EQ(Shown("'{:08,}'.format(2.5)"), "00,002.5");
  EXPECT_EQ(Shown("'{:<05}'.format(true)"), "10000");
  EXPECT_EQ(Shown("'{:+}'.format(true)"), "+1");
  for (const std::string_view expression :
       {"'{:+}'.format('a')", "'{:#}'.format('a')", "'{:,}'.format('a')", "'{:,x}'.format(5)",
        "'{:z}'.format(5)"}) {
    EXPECT_TRUE(IsRefused(expression)) << expression;
  }
  EXPECT_EQ(Shown("' '.zfill(3)"), "00 ");
}

TEST(PythonRulesTest, BatchesAreFullByEquality) {
  EXPECT_EQ(Shown("[1, 2, 3]|batch(2.0)|list"), "[[1, 2], [3]]");
  EXPECT_EQ(Shown("[1, 2, 3]|batch('a')|list"), "[[1, 2, 3]]");
  EXPECT_EQ(Shown("[1, 2]|batch(none)|list"), "[[1, 2]]");
  EXPECT_EQ(Shown("[1, 2, 3]|batch(2, 'x')|list"), "[[1, 2], [3, 'x']]");
  EXPECT_EQ(Shown("[1, 2]|batch(0, 'x')|list"), "[[], [1, 2]]");
  EXPECT_EQ(Shown("[1, 2]|batch(none)|first"), "[1, 2]");
  EXPECT_TRUE(IsRefused("[1, 2]|batch('a', 'x')|list"));
  EXPECT_TRUE(IsRefused("[1, 2]|batch(4.0, 'x')|list"));
}

TEST(PythonRulesTest, NumbersAreReadAsPythonReadsThem) {
  EXPECT_EQ(Shown("'zz'|int(0, 36)"), "1295");
  EXPECT_EQ(Shown("'12'|int(0, none)"), "12");
  EXPECT_EQ(Shown("'12.5'|int(0, 99)"), "12");
  EXPECT_EQ(Shown("'٣٤'|int ~ '٣.٥'|float"), "343.5");
  EXPECT_EQ(Shown("'1_e5'|float(7)"), "7");
  EXPECT_EQ(Shown("5.5|round(none) ~ 2.5|round(none)"), "62");
  EXPECT_EQ(Shown("149.99999999999997|round(-2) ~ 150.0|round(-2) ~ -250.0|round(-2)"),
            "100.0200.0-200.0");
  EXPECT_EQ(Shown("'2500'|filesizeformat"), "2.5 kB");
}

TEST(PythonRulesTest, ViewsOfDictsAreSets) {
  EXPECT_EQ(Shown("{'a': 1, 'b': 2}.keys() == {'b': 1, 'a': 2}.keys()"), "True");
  EXPECT_EQ(Shown("{'a': 1}.keys() < {'b': 1, 'a': 2}.keys()"), "True");
  EXPECT_EQ(Shown("{'a': 1}.items() <= {'a': 2}.items()"), "False");
  EXPECT_EQ(Shown("{'a': 1}.values() == {'a': 1}.values()"), "False");
  EXPECT_TRUE(IsRefused("[1] in {}.keys()"));
}

// Each of 100,000 keys looked for among the others would take minutes.
TEST(PythonRulesTest, LargeDictsAreComparedKeyByKey) {
  constexpr int kKeys = 100'000;
  Dict forward, backward;
  for (int i = 0; i < kKeys; ++i) {
    forward.items.emplace_back(User(absl::StrCat("key", i)), Value::Int(i));
    backward.items.emplace_back(User(absl::StrCat("key", kKeys - 1 - i)),
                                Value::Int(kKeys - 1 - i));
  }
  const Value a = *Value::MakeDict(std::move(forward.items)),
              b = *Value::MakeDict(std::move(backward.items));
  EXPECT_TRUE(Equal(a, b));
  const auto shown = Render("{{ a == b }} {{ a.keys() == b.keys() }} {{ a.items() == b.items() }}",
                            {{"a", a}, {"b", b}});
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->bytes(), "True True True");
  std::vector<std::pair<Value, Value>> whole, numbers;
  for (int i = 0; i < kKeys; ++i) {
    whole.emplace_back(Value::Int(kKeys - 1 - i), Value::Int(i));
    numbers.emplace_back(Value::Float(i), Value::Int(kKeys - 1 - i));
  }
  EXPECT_TRUE(Equal(*Value::MakeDict(std::move(whole)), *Value::MakeDict(std::move(numbers))));
  EXPECT_EQ(Shown("{(1, true): 2, 10 ** 20: 3} == {1e20: 3, (1.0, 1): 2}"), "True");
  EXPECT_EQ(Shown("{0.5: 1, none: 2} == {none: 2, 0.25: 1}"), "False");
}

// A step bounds what it computes: each of these at some steps would be minutes of one request.
TEST(PythonRulesTest, WhatTakesLongIsCharged) {
  EXPECT_EQ(Shown("'{:015,}'.format(1)"), "000,000,000,001");
  EXPECT_EQ(Shown("'{:014,}'.format(-1)"), "-0,000,000,001");
  EXPECT_THAT(
      RenderError("{% for i in range(10000) %}{% set x = '{:04300,}'.format(1) %}{% endfor %}"),
      StartsWith("rendered"));
  std::string nested = "{% set t = (1,) %}";
  for (int i = 0; i < 20; ++i) absl::StrAppend(&nested, "{% set t = (t, t) %}");
  for (const char* use : {"t is filter", "t is test", "t in {}.keys()", "t in {}", "{}.get(t)"}) {
    EXPECT_THAT(RenderError(absl::StrCat(nested, "{% for i in range(1000) %}{% set x = ", use,
                                         " %}{% endfor %}")),
                HasSubstr("steps"))
        << use;
  }
  for (const char* use : {"int", "float", "filesizeformat"}) {
    EXPECT_THAT(RenderError(absl::StrCat(
                    "{% set t = '1' * 1000000 %}{% for i in range(1000) %}{% set x = t|", use,
                    " %}{% endfor %}")),
                Not(StartsWith("rendered")))
        << use;
  }
  for (const char* use : {"x // 7", "x * x", "x / (x // 3)", "x|round(-2000)", "3 ** 8000", "-x"}) {
    EXPECT_THAT(RenderError(absl::StrCat(
                    "{% set x = 10 ** 2100 %}{% for i in range(100000) %}{% set y = ", use,
                    " %}{% endfor %}")),
                HasSubstr("steps"))
        << use;
  }
}

TEST(PythonRulesTest, RangesKeepTheirBounds) {
  EXPECT_EQ(Shown("range(4)[7:3] ~ range(4)[::3] ~ range(1, 9, 2)[1:]"),
            "range(4, 3)range(0, 4, 3)range(3, 9, 2)");
  EXPECT_TRUE(IsRefused("range(4).index(1, 0)"));
  EXPECT_THAT(Shown("range(0, 9, 4611686018427387904)[::4]"), StartsWith("error: "));
}

TEST(PythonRulesTest, MethodsOfPythonTakeNoNames) {
  EXPECT_TRUE(IsRefused("'a'.strip(chars='a')"));
  EXPECT_TRUE(IsRefused("{}.get(key='a')"));
  EXPECT_TRUE(IsRefused("range(stop=3)"));
  EXPECT_EQ(Shown("'a b'.split(sep=' ', maxsplit=1)"), "['a', 'b']");
}

TEST(PythonRulesTest, BlocksGiveStrings) {
  EXPECT_THAT(RenderError("{% filter length %}ab{% endfilter %}"), HasSubstr("no str"));
  EXPECT_EQ(RenderError("{% set x | length %}ab{% endset %}{{ x }}"), "rendered 2");
  EXPECT_THAT(RenderError("{% filter upper %}ab{% endfilter %}"), Not(HasSubstr("line")));
}

TEST(PythonRulesTest, WhatHasALengthIsTruncated) {
  EXPECT_EQ(Shown("[1, 2]|truncate"), "[1, 2]");
  EXPECT_EQ(Shown("('<b>x yyyyyyyyy'|safe)|truncate(8, false, '<', 0)"), "<b>x&lt;");
  EXPECT_TRUE(IsRefused("[1, 2]|truncate(0, false, '', 0)"));
}

}  // namespace
}  // namespace tutti::text::jinja
