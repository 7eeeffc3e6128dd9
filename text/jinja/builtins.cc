#include "text/jinja/builtins.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"

namespace tutti::text::jinja {
namespace {

absl::Status Bad(const Builtin& callee, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(callee.name), "() ", Absl(why)));
}

absl::Status BindNamed(const Builtin& callee, const CallArguments& arguments, Call* call) {
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(callee.parameters.begin(), callee.parameters.end(), name);
    if (found == callee.parameters.end() || callee.positional_only) {
      if (!callee.more) {
        return Bad(callee, absl::StrCat("got an unexpected keyword argument '", name, "'"));
      }
      call->values.push_back(value);
      call->names.push_back(name);
      continue;
    }
    const size_t i = found - callee.parameters.begin();
    if (call->given[i]) {
      return Bad(callee, absl::StrCat("got multiple values for argument '", name, "'"));
    }
    call->values[i] = value;
    call->given[i] = true;
  }
  return absl::OkStatus();
}

}  // namespace

const Builtin* FindIn(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

absl::StatusOr<Value> CallBuiltin(const Builtin& callee, const Value& self,
                                  const CallArguments& arguments, Work* work) {
  const size_t parameters = callee.parameters.size();
  const size_t positional = arguments.positional.size();
  if (positional > parameters && !callee.more) {
    return Bad(callee, absl::StrCat("takes at most ", parameters, " arguments, ", positional,
                                    " were given"));
  }
  Call call;
  call.work = work;
  call.values = arguments.positional;
  call.parameters = parameters;
  call.given.resize(parameters);
  std::fill_n(call.given.begin(), std::min(positional, parameters), true);
  if (positional < parameters) call.values.resize(parameters, Value::Missing("not given"));
  call.names.resize(call.values.size() - parameters);
  TUTTI_RETURN_IF_ERROR(BindNamed(callee, arguments, &call));
  for (size_t i = 0; i < callee.required; ++i) {
    if (call.given[i]) continue;
    return Bad(callee, absl::StrCat("needs the argument '", Absl(callee.parameters[i]), "'"));
  }
  return callee.function(self, call);
}

}  // namespace tutti::text::jinja
