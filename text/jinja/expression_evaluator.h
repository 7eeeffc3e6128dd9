// Evaluates the expressions of a template: the counterpart of the expression parser.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "text/jinja/ast.h"
#include "text/jinja/scopes.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {

class ExpressionEvaluator {
 protected:
  ExpressionEvaluator(std::vector<std::pair<std::string, Value>> variables,
                      std::optional<absl::Time> now)
      : scopes_(std::move(variables)), work_(now) {}
  ~ExpressionEvaluator() = default;

  absl::StatusOr<Value> Eval(const Expr& expr);

  // The text that the statements of `body` write, in a scope of its own: how a macro is called.
  virtual absl::StatusOr<Text> Capture(const Body& body) = 0;

  // `status` with the line it came from, unless it already has one or is the template's own
  // message.
  absl::Status AtLine(int line, const absl::Status& status);

  Scopes scopes_;
  Work work_;

 private:
  absl::StatusOr<Value> EvalKind(const Expr& expr);
  absl::StatusOr<std::vector<Value>> EvalAll(const std::vector<ExprPtr>& exprs);
  absl::StatusOr<Value> EvalDict(const Expr& expr);
  // A bound of a slice: absent when not written or None.
  absl::StatusOr<std::optional<int64_t>> Bound(const ExprPtr& expr);
  absl::StatusOr<Value> EvalSlice(const Expr& expr);
  absl::StatusOr<Value> EvalCall(const Expr& expr);
  absl::StatusOr<Value> EvalNegate(const Expr& expr);
  absl::StatusOr<Value> EvalConcat(const Expr& expr);
  // a < b < c: each operand once, false as soon as one comparison is.
  absl::StatusOr<Value> EvalCompare(const Expr& expr);
  absl::StatusOr<Value> EvalMacro(const Expr& expr);
  static absl::StatusOr<Scopes::Scope> BindMacro(const Macro& macro, std::vector<Value> values,
                                                 const std::vector<std::string>& names);
  // Parameters that were not given; a default may use those before it.
  absl::Status FillDefaults(const Macro& macro);

  int macro_depth_ = 0;
  bool placed_ = false;  // the error on its way up names a line, or needs none
};

}  // namespace tutti::text::jinja
