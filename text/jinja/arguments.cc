#include "text/jinja/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/token_reader.h"

namespace tutti::text::jinja {
namespace {

// map("upper") and select("defined") name a filter or test in a string: it must be one we have.
absl::Status CheckNamedBuiltin(const std::string& called, const Builtin& callee, int line,
                               const Arguments& arguments) {
  if (callee.names_builtin == '\0' || callee.names_builtin_at >= arguments.values.size()) {
    return absl::OkStatus();
  }
  const size_t at = callee.names_builtin_at;
  const ExprPtr& argument = arguments.values[at];
  const size_t parameters = callee.parameters.size();
  const bool named = at >= parameters && !arguments.names[at - parameters].empty();
  if (argument == nullptr || named) return absl::OkStatus();
  const bool is_filter = callee.names_builtin == 'f';
  if (argument->kind != Expr::kConstant || !argument->constant.IsStr()) {
    return FailAt(line, absl::StrCat(called, ": the ", is_filter ? "filter" : "test",
                                     " must be named by a constant string"));
  }
  const std::string_view name = argument->constant.str();
  if ((is_filter ? FindFilter(name) : FindTest(name)) == nullptr) {
    return FailAt(line, absl::StrCat(is_filter ? "filter" : "test", " \"", Absl(name),
                                     "\" is not supported"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BindArguments(std::string_view what, const Builtin& callee, int line,
                           std::vector<ExprPtr> positional,
                           std::vector<std::pair<std::string, ExprPtr>> named,
                           Arguments* arguments) {
  const std::string called = absl::StrCat(Absl(what), " \"", Absl(callee.name), "\"");
  const size_t parameters = callee.parameters.size();
  if (positional.size() > parameters && !callee.more) {
    return FailAt(line, absl::StrCat(called, " takes at most ", parameters, " arguments"));
  }
  arguments->values = std::move(positional);
  if (arguments->values.size() < parameters) arguments->values.resize(parameters);
  arguments->names.resize(arguments->values.size() - parameters);
  for (auto& [name, value] : named) {
    const auto found = std::find(callee.parameters.begin(), callee.parameters.end(), name);
    if (found == callee.parameters.end()) {
      const auto& more = callee.more_names;
      const bool known = more.empty() || std::find(more.begin(), more.end(), name) != more.end();
      if (!callee.more || !known) {
        return FailAt(line, absl::StrCat(called, " has no argument \"", name, "\""));
      }
      arguments->values.push_back(std::move(value));
      arguments->names.push_back(name);
      continue;
    }
    ExprPtr& slot = arguments->values[found - callee.parameters.begin()];
    if (slot != nullptr) {
      return FailAt(line, absl::StrCat(called, ": argument \"", name, "\" given twice"));
    }
    slot = std::move(value);
  }
  for (size_t i = 0; i < callee.required; ++i) {
    if (arguments->values[i] == nullptr) {
      return FailAt(
          line, absl::StrCat(called, " needs the argument \"", Absl(callee.parameters[i]), "\""));
    }
  }
  return CheckNamedBuiltin(called, callee, line, *arguments);
}

}  // namespace tutti::text::jinja
