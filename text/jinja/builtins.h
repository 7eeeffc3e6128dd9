// The functions, methods, filters and tests a template may call.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// The arguments as the template gives them.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// The arguments in the order of the callee's parameters.
struct Call {
  Work* work = nullptr;
  // Parameters first, Undefined where not given; then the values beyond them.
  std::vector<Value> values;
  std::vector<bool> given;         // of each parameter
  std::vector<std::string> names;  // of the values beyond the parameters; "" when positional
  size_t parameters = 0;           // how many of `values` are parameters

  bool Has(size_t i) const { return i < given.size() && given[i]; }
  // Given and not None.
  bool HasValue(size_t i) const { return Has(i) && !values[i].IsNone(); }
  // The values beyond the parameters.
  std::span<const Value> rest() const { return std::span(values).subspan(parameters); }
};

// `self`: the value that is filtered or tested, or whose method is called; None for functions.
using BuiltinFunction = absl::StatusOr<Value> (*)(const Value& self, const Call& call);

struct Builtin {
  std::string_view name;
  BuiltinFunction function = nullptr;
  std::vector<std::string_view> parameters = {};
  size_t required = 0;           // of the parameters
  bool more = false;             // takes arguments beyond its parameters
  bool positional_only = false;  // its parameters are not given by name
};
inline constexpr bool kPositional = true;

// Null when there is none of that name. The tables hold the builtins for the life of the process.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindFunction(std::string_view name);
// Methods by the type that has them.
const Builtin* FindStrMethod(std::string_view name);
const Builtin* FindListMethod(std::string_view name);
const Builtin* FindDictMethod(std::string_view name);

// The builtin of that name in a table; null when there is none.
const Builtin* FindIn(std::span<const Builtin> table, std::string_view name);

// Calls `callee` with `arguments`.
//
// Errors: InvalidArgument for an argument that it does not have, that is given twice or missing;
// otherwise its own.
absl::StatusOr<Value> CallBuiltin(const Builtin& callee, const Value& self,
                                  const CallArguments& arguments, Work* work);

}  // namespace tutti::text::jinja
