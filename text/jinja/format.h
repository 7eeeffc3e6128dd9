// Values as text: str(), repr() and json.dumps() of Python.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// str(value): the text that {{ value }} prints. Undefined prints nothing.
//
// Errors: InvalidArgument for a value without text (namespace, loop, macro); ResourceExhausted.
absl::StatusOr<Text> ToText(const Value& value, Work* work);

// repr(value); `ascii`: with escapes for all other characters.  Errors: as above.
absl::StatusOr<Text> ToRepr(const Value& value, bool ascii, Work* work);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;          // of each level; nothing: all on one line
  std::optional<std::string> item_separator;  // absent: "," or ", " as json.dumps chooses
  std::optional<std::string> key_separator;   // absent: ": "
};

// json.dumps(value, ...) as HuggingFace's tojson calls it. All of the text counts as the user's
// where any string or number in it does.  Errors: as ToText, and for Undefined.
absl::StatusOr<Text> ToJson(const Value& value, const JsonStyle& style, Work* work);

// repr(value) of a float: the shortest digits that read back as the same number.
std::string FloatRepr(double value);

}  // namespace tutti::text::jinja
