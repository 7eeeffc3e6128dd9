// Parses the subset of Jinja that chat templates are written in.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/ast.h"

namespace tutti::text::jinja {

// Statements: set (names, tuples, namespace attributes, blocks), if, for (with filter and else),
// macro, break, continue, generation. Expressions: all of Jinja's but *args, **kwargs and
// `recursive`.
//
// Errors: InvalidArgument "line N: ...", naming the statement, filter, test, function, method or
// argument that is not supported.
absl::StatusOr<std::unique_ptr<Template>> ParseTemplate(std::string_view source);

}  // namespace tutti::text::jinja
