// Evaluates the expressions of a template: the counterpart of the expression parser.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "text/jinja/ast.h"
#include "text/jinja/callables.h"
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
  // The value of `input` after the filters of {% filter %} or {% set | %}.
  absl::StatusOr<Value> EvalFilters(const Expr& expr, Value input);
  // `extra`: one more named argument, where it is not null.
  absl::StatusOr<Value> EvalCall(const Expr& expr, const Value* extra);

  // The text that the statements of `body` write.
  virtual absl::StatusOr<Text> Capture(const Body& body) = 0;
  // The text of one more level of a recursive loop.
  virtual absl::StatusOr<Text> CallLoop(const LoopObject& loop, const Value& items) = 0;
  // The block of that name; null when there is none.
  virtual const Stmt* FindBlock(std::string_view name) const = 0;

  // `status` with the line it came from, unless it already has one or is the template's own
  // message.
  absl::Status AtLine(int line, const absl::Status& status);

  Scopes scopes_;
  Work work_;

 private:
  absl::StatusOr<Value> EvalKind(const Expr& expr);
  absl::StatusOr<Value> EvalOperator(const Expr& expr);
  absl::StatusOr<std::vector<Value>> EvalAll(const std::vector<ExprPtr>& exprs);
  absl::StatusOr<CallArguments> EvalArguments(const std::vector<Argument>& arguments);
  absl::Status EvalArgument(const Argument& argument, CallArguments* out);
  absl::StatusOr<Value> EvalName(const Expr& expr);
  absl::StatusOr<Value> EvalAttribute(const Expr& expr);
  absl::StatusOr<Value> EvalDict(const Expr& expr);
  // A bound of a slice: absent when not written or None.
  absl::StatusOr<std::optional<int64_t>> Bound(const ExprPtr& expr);
  absl::StatusOr<Value> EvalSlice(const Expr& expr);
  absl::StatusOr<Value> EvalTest(const Expr& expr);
  absl::StatusOr<Value> EvalConcat(const Expr& expr);
  // a < b < c: each operand once, false as soon as one comparison is.
  absl::StatusOr<Value> EvalCompare(const Expr& expr);
  absl::StatusOr<Value> CallObject(Object* object, CallArguments arguments);
  absl::StatusOr<Value> CallMacro(const MacroObject& object, CallArguments arguments);
  absl::Status BindMacro(const Macro& macro, CallArguments arguments);

  bool placed_ = false;  // the error on its way up names a line, or needs none
};

}  // namespace tutti::text::jinja
