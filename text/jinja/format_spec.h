// Python's formatting of one value: width, padding, digits.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

struct FormatSpec {
  std::string fill = " ";      // one character
  char align = '\0';           // < > ^ =; '\0': as the type has it
  char sign = '\0';            // + - or a space
  bool positive_zero = false;  // z
  bool alternate = false;      // #
  int width = 0;
  char grouping = '\0';  // , or _
  int precision = -1;
  char type = '\0';
};

// format(value, spec): of a str, an integer, a float, or of anything else where `spec` is empty.
//
// Errors: InvalidArgument for a spec that is not known or does not fit the value, or with a width
// or precision beyond kTemplateFormatWidthMax; ResourceExhausted.
absl::StatusOr<Text> FormatValue(const Value& value, std::string_view spec, Work* work);

// The digits of an integer (types d x X o b c n) or a float (e E f F g G %, or repr), with sign,
// prefix and grouping but without padding.  Errors: InvalidArgument as above.
absl::StatusOr<std::string> FormatNumber(const Value& value, const FormatSpec& spec);

// `text` with the padding of `spec`, which counts as the template's.
absl::StatusOr<Text> Pad(const Text& text, const FormatSpec& spec, Work* work);

}  // namespace tutti::text::jinja
