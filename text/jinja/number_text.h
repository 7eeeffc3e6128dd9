// Text as numbers: int() and float() of Python.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// The cost of reading it, whichever of the two: a step a byte, for it is copied and looked
// through letter by letter.  Errors: as Work::Charge.
absl::Status ChargeNumber(const Text& text, Work* work);

// int(text, base); nothing where the text is no integer, or there is no such base.
// Errors: InvalidArgument beyond kTemplateIntegerDigitsMax.
absl::StatusOr<std::optional<Value>> ReadInteger(const Text& text, int64_t base);

// float(text); nothing where the text is no number.
std::optional<double> ReadFloat(const Text& text);

}  // namespace tutti::text::jinja
