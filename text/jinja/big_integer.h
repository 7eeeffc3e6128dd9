// Integers beyond 64 bits, as Python has them.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

namespace tutti::text::jinja {

// The integer of decimal digits with an optional "-": Int where it fits 64 bits, else Big.
// REQUIRES: at least one digit, nothing else
// Errors: InvalidArgument beyond kTemplateIntegerDigitsMax.
absl::StatusOr<Value> IntegerFromDigits(std::string_view digits, bool from_user);
// The same of digits in base 2 to 36. REQUIRES: every character is a digit of the base
absl::StatusOr<Value> IntegerFromDigits(std::string_view digits, int base, bool from_user);
// int(value) of a float.  Errors: InvalidArgument when it is not finite.
absl::StatusOr<Value> IntegerFromDouble(double value, bool from_user);

// a op b, for + - * // % and ** (whose b is not negative), exactly.
// REQUIRES: both IsInteger()
// Errors: InvalidArgument for division by zero and beyond kTemplateIntegerDigitsMax.
absl::StatusOr<Value> BigArithmetic(std::string_view op, const Value& a, const Value& b,
                                    bool from_user);
// a / b as a float, rounded once.  REQUIRES: both IsInteger()
// Errors: InvalidArgument for division by zero and beyond the largest float.
absl::StatusOr<double> DivideIntegers(const Value& a, const Value& b);
// float(value) of any number.  Errors: InvalidArgument beyond the largest float.
absl::StatusOr<double> ToDouble(const Value& value);
// Below, at or above zero as a is below, equal to or above b.  REQUIRES: both IsInteger()
int CompareIntegers(const Value& a, const Value& b);

// The digits of an integer in decimal, and in base 2, 8 or 16 in lower case. A "-" comes first.
std::string IntegerDigits(const Value& value, int base = 10);

}  // namespace tutti::text::jinja
