// + - * / // % ** of Python.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// The steps of work.h that big_integer.h takes for a op b, which reads, computes and writes digits:
// their number's square.  REQUIRES: both IsInteger()
int64_t StepsOf(std::string_view op, const Value& a, const Value& b);

// a op b: of numbers; + also of strings and of lists, * of one of these and an integer, % of a
// string and what it formats.
//
// Errors: InvalidArgument for other types, division by zero, and integers beyond
// kTemplateIntegerDigitsMax; ResourceExhausted.
absl::StatusOr<Value> Arithmetic(std::string_view op, const Value& a, const Value& b, Work* work);

}  // namespace tutti::text::jinja
