// The functions, methods, filters and tests a template may call.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

// What a builtin is called with.
struct Call {
  Work* work = nullptr;
  std::vector<Value>
      values;  // parameters first, Undefined where not given; then what is beyond them
  std::vector<std::string> names;  // of the values beyond the parameters; "" when positional
  size_t parameters = 0;           // how many of `values` are parameters

  bool Has(size_t i) const { return i < values.size() && !values[i].IsUndefined(); }
  // The values beyond the parameters.
  std::span<const Value> rest() const { return std::span(values).subspan(parameters); }
};

// `self`: what is filtered or tested, or whose method is called; None for functions.
using BuiltinFunction = absl::StatusOr<Value> (*)(const Value& self, const Call& call);

struct Builtin {
  std::string_view name;
  BuiltinFunction function = nullptr;
  std::vector<std::string_view> parameters;
  size_t required = 0;  // of the parameters
  bool more = false;    // takes arguments beyond its parameters
  // Names of arguments allowed beyond the parameters; empty: any.
  std::vector<std::string_view> more_names = {};
  // 'f' or 't': the positional argument at names_builtin_at must be a constant that names a filter
  // or test.
  char names_builtin = '\0';
  size_t names_builtin_at = 0;
};

// Null when there is none of that name. The tables hold the builtins for the life of the process.
const Builtin* FindFilter(std::string_view name);
const Builtin* FindTest(std::string_view name);
const Builtin* FindMethod(std::string_view name);
const Builtin* FindFunction(std::string_view name);

// The builtin of that name in a table; null when there is none.
const Builtin* FindIn(std::span<const Builtin> table, std::string_view name);

// The bool that `test` gives for `value`; used by select and its kin.
absl::StatusOr<bool> RunTest(const Builtin& test, const Value& value,
                             std::span<const Value> arguments, Work* work);

}  // namespace tutti::text::jinja
