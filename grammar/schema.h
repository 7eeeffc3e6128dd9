// JSON Schema to a graph. README.md says what is served.
#pragma once

#include <string_view>

#include "grammar/graph.h"
#include "grammar/whitespace.h"

namespace tutti::grammar {

// A graph that is not finished.
// Errors: InvalidArgument with JSON pointer and keyword for what is no schema or is not served;
// ResourceExhausted beyond the limits.
absl::StatusOr<Graph> ReadSchema(std::string_view text, Whitespace whitespace);

}  // namespace tutti::grammar
