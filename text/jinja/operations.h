// Operations on values that the evaluator and the builtins share.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// The items a `for` visits: of a list, the keys of a dict, the characters of a string, nothing of
// Undefined.  Errors: InvalidArgument "'int' object is not iterable".
absl::StatusOr<std::shared_ptr<const List>> Iterate(const Value& value, Work* work);

// value.name and value[key] without methods: Undefined when not there.
absl::StatusOr<Value> GetAttribute(const Value& value, std::string_view name, Work* work);
absl::StatusOr<Value> GetItem(const Value& value, const Value& key, Work* work);

// a op b, for == != < <= > >= in and "not in".
absl::StatusOr<bool> Compare(std::string_view op, const Value& a, const Value& b, Work* work);

// InvalidArgument: "<what> is undefined" or "'int' object <problem>".
absl::Status TypeError(const Value& value, std::string_view problem);

// InvalidArgument: "'int' object given where a <wanted> is needed".
absl::Status BadArgument(const Value& value, std::string_view wanted);

}  // namespace tutti::text::jinja
