// Puts the arguments of a call in the order of the callee's parameters.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "text/jinja/ast.h"

namespace tutti::text::jinja {

// `what`: "filter", "method", ..., for messages.
//
// Errors: InvalidArgument "line N: ..." for an argument that the callee does not have, that is
// given twice or missing, and for the name of a filter or test, given to map() or select(), that is
// not known.
absl::Status BindArguments(std::string_view what, const Builtin& callee, int line,
                           std::vector<ExprPtr> positional,
                           std::vector<std::pair<std::string, ExprPtr>> named,
                           Arguments* arguments);

}  // namespace tutti::text::jinja
