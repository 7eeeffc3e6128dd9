// Templates put together at random: they parse and render, or are refused, and soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "text/jinja/jinja_testing.h"

namespace tutti::text::jinja {
namespace {

// clang-format would give each a line of its own.
// clang-format off
constexpr std::string_view kParts[] = {
    "{{ ", " }}", "{%- ", " -%}", "{% ", " %}", "if ", "elif ", "else", "endif", "for x in ",
    "endfor", "set x = ", "set ns.a = ", "endset", "macro m(a)", "endmacro", "m(x)",
    "namespace(a=1)", "ns", "messages", "x", "loop.index", "1", "2.5", "'a'", "\"b\\n\"",
    "[1, 2]", "(1,)", "{'k': x}", " + ", " - ", " * ", " // ", " % ", " ~ ", " and ", " or ",
    " not ", " in ", " is defined", " is not none", " == ", " < ", "|trim", "|length", "|tojson",
    "|join(',')", "|map('upper')", "|select('odd')", "|first", "|replace('a', 'bb')",
    ".split(',')", ".strip()", ".items()", "[0]", "[::-1]", ".role", "range(5)", "range(99999)",
    "(", ")", "[", "]", "{", "}", ",", ":", ".", "\n", "text ", "{# c #}", "break", "continue",
    "if x else ", "\xC3\xA9"};
// clang-format on

TEST(JinjaFuzzTest, RandomTemplatesEndSoonAndWell) {
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
