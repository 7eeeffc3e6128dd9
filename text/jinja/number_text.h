// Text as numbers: int() and float() of Python.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

namespace tutti::text::jinja {

// int(text, base); nothing where the text is no integer, or there is no such base.
// Errors: InvalidArgument beyond kTemplateIntegerDigitsMax.
absl::StatusOr<std::optional<Value>> ReadInteger(const Text& text, int64_t base);

// float(text); nothing where the text is no number.
std::optional<double> ReadFloat(const Text& text);

}  // namespace tutti::text::jinja
