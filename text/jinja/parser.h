// Parses the Jinja that chat templates are written in.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"

namespace tutti::text::jinja {

// All statements and expressions of Jinja 3.1 with loopcontrols and {% generation %}, but
// {% autoescape %}. What loads other templates (include, import, extends) is an error where it is
// reached: as in transformers, there is nothing to load from.
//
// Errors: InvalidArgument "line N: ...", naming the statement, filter or test that is not known.
absl::StatusOr<std::unique_ptr<Template>> ParseTemplate(std::string_view source);

}  // namespace tutti::text::jinja
