// Markup: strings that count as HTML, and the escaping of others.
#pragma once

#include "absl/status/statusor.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// str(value) with & < > ' " as entities; markup as it is.  Errors: as ToText.
absl::StatusOr<Text> EscapeHtml(const Value& value, Work* work);
// The same, also of markup.
absl::StatusOr<Text> ForceEscapeHtml(const Value& value, Work* work);

}  // namespace tutti::text::jinja
