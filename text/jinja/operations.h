// Operations on values that the evaluator and the builtins share.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// The items a `for` visits: of a list, the keys of a dict, the characters of a string, what is left
// of a generator, nothing of Undefined.  Errors: InvalidArgument "'int' object is not iterable".
absl::StatusOr<std::shared_ptr<const List>> Iterate(const Value& value, Work* work);

// Whether a `for` may visit it.
bool IsIterable(const Value& value);

// value.name: an attribute or method, else the item of that name; Undefined when there is neither.
// What would change a list or dict is Undefined, too, and says so when it is called.
absl::StatusOr<Value> GetAttribute(const Value& value, std::string_view name, Work* work);
// value[key]: an item, else the attribute or method of that name.
absl::StatusOr<Value> GetItem(const Value& value, const Value& key, Work* work);
// value.name without items: what the filter attr gives.
absl::StatusOr<Value> GetOnlyAttribute(const Value& value, std::string_view name, Work* work);

// len(value).  Errors: InvalidArgument "object of type 'int' has no len()".
absl::StatusOr<int64_t> Length(const Value& value, Work* work);

// a op b, for == != < <= > >= in and "not in".
absl::StatusOr<bool> Compare(std::string_view op, const Value& a, const Value& b, Work* work);

// The result of range(begin, end, step), and slices of it.
absl::StatusOr<Value> MakeRange(std::vector<Value> items, int64_t begin, int64_t end, int64_t step);

// The key of a dict.  Errors: InvalidArgument "unhashable type: 'list'".
absl::Status CheckHashable(const Value& key, Work* work);

// InvalidArgument with `why`.
absl::Status Invalid(std::string_view why);

// InvalidArgument: "<what> is undefined" or "'int' object <problem>".
absl::Status TypeError(const Value& value, std::string_view problem);

// InvalidArgument: "'int' object given where a <wanted> is needed".
absl::Status BadArgument(const Value& value, std::string_view wanted);

}  // namespace tutti::text::jinja
