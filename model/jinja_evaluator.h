// Renders a parsed template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/jinja_ast.h"
#include "model/jinja_text.h"
#include "model/jinja_value.h"

namespace tutti::jinja {

// The text that `source` gives with `variables` defined.
//
// Errors: InvalidArgument "line N: ..." for what Jinja raises an exception at, with the message of
// raise_exception() as it is; ResourceExhausted beyond kTemplateStepsMax or
// kTemplateOutputBytesMax.
absl::StatusOr<Text> Evaluate(const Template& source,
                              std::vector<std::pair<std::string, Value>> variables);

}  // namespace tutti::jinja
