// JSON Schema to a graph. README.md says what is served.
#pragma once

#include <string_view>

#include "grammar/build_work.h"
#include "grammar/graph.h"
#include "grammar/whitespace.h"

namespace tutti::grammar {

// Adds the nodes and rules of a schema to a graph that is not finished; the rule that is its text.
// Errors: InvalidArgument with JSON pointer and keyword for what is no schema or is not served;
// ResourceExhausted beyond the limits.
absl::StatusOr<RuleId> ReadSchema(std::string_view text, Whitespace whitespace, BuildWork* work,
                                  Graph* graph);

}  // namespace tutti::grammar
