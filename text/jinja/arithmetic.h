// + - * / // % ** of Python.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// a op b: of numbers; + also of strings and of lists, * of one of these and an integer, % of a
// string and what it formats.
//
// Errors: InvalidArgument for other types, division by zero, and integers beyond
// kTemplateIntegerDigitsMax; ResourceExhausted.
absl::StatusOr<Value> Arithmetic(std::string_view op, const Value& a, const Value& b, Work* work);

}  // namespace tutti::text::jinja
