// Cuts the source of a template into text and the tokens inside {{ }} and {% %}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tutti::text::jinja {

struct Token {
  enum Kind {
    kText,         // outside of tags; `text` is the rest after whitespace control
    kOutputBegin,  // {{
    kOutputEnd,    // }}
    kBlockBegin,   // {%
    kBlockEnd,     // %}
    kName,
    kString,   // `text` is unescaped
    kInteger,  // `text` is its digits in `base`
    kFloat,
    kOperator,  // `text` is one of . , : ( ) [ ] { } | ~ + - * / // % ** == != < <= > >= =
    kEnd,
  };
  Kind kind = kEnd;
  std::string text;
  int base = 10;
  double number = 0;
  int line = 1;

  bool IsName(std::string_view name) const { return kind == kName && text == name; }
  bool IsOperator(std::string_view op) const { return kind == kOperator && text == op; }
};

// Whitespace control as Jinja does it with trim_blocks and lstrip_blocks on, which is how
// HuggingFace renders chat templates. The last token is kEnd.
//
// Errors: InvalidArgument "line N: ...": a tag that does not end, brackets that do not match, a
// character or escape that is not known.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace tutti::text::jinja
