// Renders a parsed template.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "text/jinja/ast.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

namespace tutti::text::jinja {

// The text that `source` gives with `variables` defined. `now`: the time that strftime_now returns,
// in UTC; without it that function is undefined.
//
// Errors: InvalidArgument "line N: ..." where Jinja raises an exception, with the message of
// raise_exception() as it is; ResourceExhausted beyond kTemplateStepsMax or
// kTemplateOutputBytesMax.
absl::StatusOr<Text> Evaluate(const Template& source,
                              std::vector<std::pair<std::string, Value>> variables,
                              std::optional<absl::Time> now);

}  // namespace tutti::text::jinja
