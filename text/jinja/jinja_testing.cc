#include "text/jinja/jinja_testing.h"

#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace tutti::text::jinja {

std::string ParseError(std::string_view source) {
  const auto parsed = ParseTemplate(source);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

absl::StatusOr<Text> Render(std::string_view source,
                            std::vector<std::pair<std::string, Value>> variables) {
  TUTTI_ASSIGN_OR_RETURN(const auto parsed, ParseTemplate(source));
  return Evaluate(*parsed, std::move(variables), std::nullopt);
}

std::string RenderError(std::string_view source) {
  const auto text = Render(source);
  return text.ok() ? absl::StrCat("rendered ", std::string(text->bytes()))
                   : std::string(text.status().message());
}

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
  std::vector<std::pair<Value, Value>> items = {{User("k"), User("v")}};
  std::vector<std::pair<std::string, Value>> variables = {
      {"u", User("user")},
      {"n", Value::Int(7, true)},
      {"l", *Value::MakeList({User("a"), User("b")})},
      {"d", *Value::MakeDict(std::move(items))}};
  const auto text = Render(source, std::move(variables));
  EXPECT_TRUE(text.ok()) << source << ": " << text.status();
  return text.ok() ? Marked(*text) : "";
}

}  // namespace tutti::text::jinja
