#include "text/jinja/expression_evaluator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

absl::Status Invalid(std::string_view why) { return absl::InvalidArgumentError(Absl(why)); }

}  // namespace

absl::Status ExpressionEvaluator::AtLine(int line, const absl::Status& status) {
  if (status.ok() || placed_) return status;
  placed_ = true;
  return Annotate(status, absl::StrCat("line ", line));
}

absl::StatusOr<Value> ExpressionEvaluator::Eval(const Expr& expr) {
  TUTTI_RETURN_IF_ERROR(work_.Charge(1));
  absl::StatusOr<Value> value = EvalKind(expr);
  if (!value.ok()) return AtLine(expr.line, value.status());
  return value;
}

absl::StatusOr<Value> ExpressionEvaluator::EvalKind(const Expr& expr) {
  switch (expr.kind) {
    case Expr::kConstant:
      return expr.constant;
    case Expr::kName:
      return scopes_.Lookup(expr.name);
    case Expr::kList:
    case Expr::kTuple: {
      TUTTI_ASSIGN_OR_RETURN(std::vector<Value> items, EvalAll(expr.children));
      return Value::MakeList(std::move(items), expr.kind == Expr::kTuple);
    }
    case Expr::kDict:
      return EvalDict(expr);
    case Expr::kAttribute: {
      TUTTI_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0]));
      return GetAttribute(object, expr.name, &work_);
    }
    case Expr::kItem: {
      TUTTI_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0]));
      TUTTI_ASSIGN_OR_RETURN(const Value key, Eval(*expr.children[1]));
      return GetItem(object, key, &work_);
    }
    case Expr::kSlice:
      return EvalSlice(expr);
    case Expr::kFunction:
    case Expr::kMethod:
    case Expr::kFilter:
    case Expr::kTest:
      return EvalCall(expr);
    case Expr::kMacro:
      return EvalMacro(expr);
    case Expr::kNot: {
      TUTTI_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.children[0]));
      return Value::Bool(!operand.Truth());
    }
    case Expr::kNegate:
      return EvalNegate(expr);
    case Expr::kAnd:
    case Expr::kOr: {
      TUTTI_ASSIGN_OR_RETURN(Value left, Eval(*expr.children[0]));
      if (left.Truth() == (expr.kind == Expr::kOr)) return left;
      return Eval(*expr.children[1]);
    }
    case Expr::kBinary: {
      TUTTI_ASSIGN_OR_RETURN(const Value left, Eval(*expr.children[0]));
      TUTTI_ASSIGN_OR_RETURN(const Value right, Eval(*expr.children[1]));
      return Arithmetic(expr.name, left, right, &work_);
    }
    case Expr::kConcat:
      return EvalConcat(expr);
    case Expr::kCompare:
      return EvalCompare(expr);
    case Expr::kConditional: {
      TUTTI_ASSIGN_OR_RETURN(const Value condition, Eval(*expr.children[1]));
      if (condition.Truth()) return Eval(*expr.children[0]);
      if (expr.children[2] != nullptr) return Eval(*expr.children[2]);
      return Value::Missing("the inline if-expression has no else and was false");
    }
  }
  return Value();
}

absl::StatusOr<std::vector<Value>> ExpressionEvaluator::EvalAll(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) {
    if (expr == nullptr) {
      values.push_back(Value::Missing(""));
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(Value value, Eval(*expr));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> ExpressionEvaluator::EvalDict(const Expr& expr) {
  std::vector<std::pair<Text, Value>> items;
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    TUTTI_ASSIGN_OR_RETURN(const Value key, Eval(*expr.children[i]));
    if (!key.IsStr()) return TypeError(key, "as the key of a dict is not supported");
    TUTTI_ASSIGN_OR_RETURN(Value value, Eval(*expr.children[i + 1]));
    const auto same = std::find_if(items.begin(), items.end(), [&](const auto& item) {
      return item.first.bytes() == key.str();
    });
    if (same != items.end()) {
      same->second = std::move(value);
    } else {
      items.emplace_back(key.text(), std::move(value));
    }
  }
  return Value::MakeDict(std::move(items));
}

absl::StatusOr<std::optional<int64_t>> ExpressionEvaluator::Bound(const ExprPtr& expr) {
  if (expr == nullptr) return std::optional<int64_t>();
  TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*expr));
  if (value.IsNone()) return std::optional<int64_t>();
  if (!value.IsInt()) return TypeError(value, "cannot bound a slice");
  return std::optional<int64_t>(value.AsInt());
}

absl::StatusOr<Value> ExpressionEvaluator::EvalSlice(const Expr& expr) {
  TUTTI_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0]));
  TUTTI_ASSIGN_OR_RETURN(const auto begin, Bound(expr.children[1]));
  TUTTI_ASSIGN_OR_RETURN(const auto end, Bound(expr.children[2]));
  TUTTI_ASSIGN_OR_RETURN(const auto step, Bound(expr.children[3]));
  if (step.has_value() && *step == 0) return Invalid("slice step cannot be zero");
  if (object.IsStr()) {
    TUTTI_ASSIGN_OR_RETURN(Text text,
                           SliceText(object.text(), begin, end, step.value_or(1), &work_));
    return Value::Str(std::move(text));
  }
  if (!object.IsList()) return TypeError(object, "cannot be sliced");
  const std::vector<Value>& items = object.list()->items;
  TUTTI_RETURN_IF_ERROR(work_.ChargeValues(items.size()));
  std::vector<Value> selected;
  for (const size_t i : SliceIndices(items.size(), begin, end, step.value_or(1))) {
    selected.push_back(items[i]);
  }
  return Value::MakeList(std::move(selected), object.list()->is_tuple);
}

absl::StatusOr<Value> ExpressionEvaluator::EvalCall(const Expr& expr) {
  Value self;
  if (expr.kind != Expr::kFunction) {
    TUTTI_ASSIGN_OR_RETURN(self, Eval(*expr.children[0]));
  }
  if (expr.kind == Expr::kMethod && self.IsUndefined()) return TypeError(self, "");
  Call call;
  call.work = &work_;
  TUTTI_ASSIGN_OR_RETURN(call.values, EvalAll(expr.arguments.values));
  call.names = expr.arguments.names;
  call.parameters = expr.builtin->parameters.size();
  // What the template raises is addressed to the user as it is.
  if (expr.builtin->name == "raise_exception") placed_ = true;
  return expr.builtin->function(self, call);
}

absl::StatusOr<Value> ExpressionEvaluator::EvalConcat(const Expr& expr) {
  Text out;
  for (const ExprPtr& child : expr.children) {
    TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*child));
    TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(value, &work_));
    TUTTI_RETURN_IF_ERROR(work_.ChargeBytes(out.size() + text.size()));
    out.Append(text);
  }
  return Value::Str(std::move(out));
}

absl::StatusOr<Value> ExpressionEvaluator::EvalCompare(const Expr& expr) {
  TUTTI_ASSIGN_OR_RETURN(Value left, Eval(*expr.children[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Value right, Eval(*expr.children[i + 1]));
    TUTTI_ASSIGN_OR_RETURN(const bool holds, Compare(expr.ops[i], left, right, &work_));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> ExpressionEvaluator::EvalNegate(const Expr& expr) {
  TUTTI_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.children[0]));
  if (!operand.IsNumber()) return TypeError(operand, "cannot be negated");
  if (operand.IsFloat()) return Value::Float(-operand.AsDouble(), operand.number_from_user());
  return Arithmetic("-", Value::Int(0), operand, &work_);
}

absl::StatusOr<Value> ExpressionEvaluator::EvalMacro(const Expr& expr) {
  const Macro* macro = scopes_.Lookup(expr.name).AsMacro();
  if (macro == nullptr) return Invalid(absl::StrCat("'", expr.name, "' is not callable"));
  if (macro_depth_ >= kTemplateMacroDepthMax) {
    return Invalid(
        absl::StrCat("macros call each other more than ", kTemplateMacroDepthMax, " deep"));
  }
  TUTTI_ASSIGN_OR_RETURN(std::vector<Value> values, EvalAll(expr.arguments.values));
  TUTTI_ASSIGN_OR_RETURN(Scopes::Scope scope,
                         BindMacro(*macro, std::move(values), expr.arguments.names));
  ++macro_depth_;
  const Scopes::Hidden callers(&scopes_);
  scopes_.Push(std::move(scope));
  absl::Status status = FillDefaults(*macro);
  absl::StatusOr<Text> text = status.ok() ? Capture(macro->body) : status;
  scopes_.Pop();
  --macro_depth_;
  if (!text.ok()) return text.status();
  return Value::Str(*std::move(text));
}

absl::StatusOr<Scopes::Scope> ExpressionEvaluator::BindMacro(
    const Macro& macro, std::vector<Value> values, const std::vector<std::string>& names) {
  Scopes::Scope scope;
  for (size_t i = 0; i < values.size(); ++i) {
    size_t parameter = i;
    if (!names[i].empty()) {
      parameter = std::find(macro.parameters.begin(), macro.parameters.end(), names[i]) -
                  macro.parameters.begin();
    }
    if (parameter >= macro.parameters.size()) {
      return Invalid(absl::StrCat(
          "macro '", macro.name, "' takes no argument ",
          names[i].empty() ? absl::StrCat("number ", i + 1) : absl::StrCat("'", names[i], "'")));
    }
    if (Scopes::FindIn(&scope, macro.parameters[parameter]) != nullptr) {
      return Invalid(absl::StrCat("macro '", macro.name, "' is given '",
                                  macro.parameters[parameter], "' twice"));
    }
    scope.emplace_back(macro.parameters[parameter], std::move(values[i]));
  }
  return scope;
}

absl::Status ExpressionEvaluator::FillDefaults(const Macro& macro) {
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const std::string& name = macro.parameters[i];
    if (Scopes::FindIn(&scopes_.innermost(), name) != nullptr) continue;
    Value value = Value::Missing(absl::StrCat("parameter '", name, "' was not provided"));
    if (macro.defaults[i] != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(value, Eval(*macro.defaults[i]));
    }
    scopes_.innermost().emplace_back(name, std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace tutti::text::jinja
