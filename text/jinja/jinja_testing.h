// Support for tests of templates: parsing, rendering, and the origin of each byte of the result.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

namespace tutti::text::jinja {

// "accepted", or why `source` is refused.
std::string ParseError(std::string_view source);

absl::StatusOr<Text> Render(std::string_view source,
                            std::vector<std::pair<std::string, Value>> variables = {});

// "rendered ...", or why `source` cannot be rendered.
std::string RenderError(std::string_view source);

// The user's parts in brackets.
std::string Marked(const Text& text);

// A string of the user's.
Value User(std::string text);

// `source` with u "user", n 7, l ["a", "b"] and d {"k": "v"}, all of them the user's; Marked.
std::string RenderMarked(std::string_view source);

}  // namespace tutti::text::jinja
