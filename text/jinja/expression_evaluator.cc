#include "text/jinja/expression_evaluator.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/limits.h"

namespace tutti::text::jinja {
absl::Status ExpressionEvaluator::AtLine(int line, const absl::Status& status) {
  if (status.ok() || placed_) return status;
  placed_ = true;
  return Annotate(status, absl::StrCat("line ", line));
}

absl::StatusOr<Value> ExpressionEvaluator::Eval(const Expr& expr) {
  const Work::Level level(&work_);
  TUTTI_RETURN_IF_ERROR(work_.CheckDepth());
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
      return EvalName(expr);
    case Expr::kList:
    case Expr::kTuple: {
      TUTTI_ASSIGN_OR_RETURN(std::vector<Value> items, EvalAll(expr.children));
      return Value::MakeList(std::move(items),
                             expr.kind == Expr::kTuple ? List::kTuple : List::kList);
    }
    case Expr::kDict:
      return EvalDict(expr);
    case Expr::kAttribute:
      return EvalAttribute(expr);
    case Expr::kItem: {
      TUTTI_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0]));
      TUTTI_ASSIGN_OR_RETURN(const Value key, Eval(*expr.children[1]));
      return GetItem(object, key, &work_);
    }
    case Expr::kSlice:
      return EvalSlice(expr);
    case Expr::kCall:
      return EvalCall(expr, nullptr);
    case Expr::kFilter:
      return EvalFilters(expr, Value());
    case Expr::kTest:
      return EvalTest(expr);
    default:
      return EvalOperator(expr);
  }
}

absl::StatusOr<Value> ExpressionEvaluator::EvalOperator(const Expr& expr) {
  switch (expr.kind) {
    case Expr::kNot: {
      TUTTI_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.children[0]));
      return Value::Bool(!operand.Truth());
    }
    case Expr::kNegate:
    case Expr::kPositive: {
      TUTTI_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.children[0]));
      if (!operand.IsNumber()) return TypeError(operand, "is not a number that has a sign");
      const bool negate = expr.kind == Expr::kNegate;
      if (!operand.IsFloat()) return Arithmetic(negate ? "-" : "+", Value::Int(0), operand, &work_);
      const double number = operand.AsDouble();
      return Value::Float(negate ? -number : number, operand.number_from_user());
    }
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
    default: {
      TUTTI_ASSIGN_OR_RETURN(const Value condition, Eval(*expr.children[1]));
      if (condition.Truth()) return Eval(*expr.children[0]);
      if (expr.children[2] != nullptr) return Eval(*expr.children[2]);
      return Value::Missing("the inline if-expression has no else and was false");
    }
  }
}

absl::StatusOr<Value> ExpressionEvaluator::EvalName(const Expr& expr) {
  Value value = scopes_.Lookup(expr.name);
  const Object* object = value.AsObject();
  if (object != nullptr && object->kind() == Object::kFunction && !work_.now().has_value() &&
      static_cast<const FunctionObject*>(object)->function().name == "strftime_now") {
    return Value::Missing("'strftime_now' is undefined");
  }
  if (value.IsUndefined() && expr.name == "self")
    return Value::Of(std::make_shared<BlocksObject>());
  return value;
}

absl::StatusOr<Value> ExpressionEvaluator::EvalAttribute(const Expr& expr) {
  TUTTI_ASSIGN_OR_RETURN(const Value object, Eval(*expr.children[0]));
  if (const Object* self = object.AsObject(); self != nullptr && self->kind() == Object::kBlocks) {
    const Stmt* block = FindBlock(expr.name);
    if (block != nullptr) return Value::Of(std::make_shared<BlocksObject>(block));
  }
  return GetAttribute(object, expr.name, &work_);
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
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    TUTTI_ASSIGN_OR_RETURN(const Value key, Eval(*expr.children[i]));
    TUTTI_RETURN_IF_ERROR(CheckHashable(key, &work_));
    TUTTI_ASSIGN_OR_RETURN(Value value, Eval(*expr.children[i + 1]));
    TUTTI_RETURN_IF_ERROR(work_.Charge(static_cast<int64_t>(items.size()) / 8));
    const auto same = std::find_if(items.begin(), items.end(),
                                   [&](const auto& item) { return Equal(item.first, key); });
    if (same != items.end()) {
      same->second = std::move(value);
    } else {
      items.emplace_back(key, std::move(value));
    }
  }
  return Value::MakeDict(std::move(items));
}

absl::StatusOr<std::optional<int64_t>> ExpressionEvaluator::Bound(const ExprPtr& expr) {
  if (expr == nullptr) return std::optional<int64_t>();
  TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*expr));
  if (value.IsNone()) return std::optional<int64_t>();
  if (value.IsBig()) {  // beyond every length
    const bool negative = value.digits()[0] == '-';
    return std::optional<int64_t>(negative ? std::numeric_limits<int64_t>::min()
                                           : std::numeric_limits<int64_t>::max());
  }
  if (!value.IsInt() && !value.IsBool()) return TypeError(value, "cannot bound a slice");
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
    return Value::Str(std::move(text), object.IsMarkup());
  }
  if (object.IsUndefined()) return TypeError(object, "");
  if (!object.IsList() || object.list()->is_view()) {
    return TypeError(object, "is not subscriptable by a slice");
  }
  const std::vector<Value>& items = object.list()->items;
  TUTTI_RETURN_IF_ERROR(work_.ChargeValues(items.size()));
  std::vector<Value> selected;
  for (const size_t i : SliceIndices(items.size(), begin, end, step.value_or(1))) {
    selected.push_back(items[i]);
  }
  const List& list = *object.list();
  const List::Kind kind = list.kind == List::kGroup ? List::kTuple : list.kind;
  if (kind != List::kRange) return Value::MakeList(std::move(selected), kind);
  // Its bounds and step follow from those of the slice; unlike the items they may be any.
  const SliceBounds bounds = BoundsOfSlice(items.size(), begin, end, step.value_or(1));
  int64_t first = 0, last = 0, by = 0;
  if (__builtin_mul_overflow(bounds.begin, list.step, &first) ||
      __builtin_add_overflow(first, list.begin, &first) ||
      __builtin_mul_overflow(bounds.end, list.step, &last) ||
      __builtin_add_overflow(last, list.begin, &last) ||
      __builtin_mul_overflow(step.value_or(1), list.step, &by)) {
    return Invalid("the bounds of a range have more than 64 bits");
  }
  return MakeRange(std::move(selected), first, last, by);
}

absl::Status ExpressionEvaluator::EvalArgument(const Argument& argument, CallArguments* out) {
  TUTTI_ASSIGN_OR_RETURN(Value value, Eval(*argument.value));
  switch (argument.kind) {
    case Argument::kPositional:
      out->positional.push_back(std::move(value));
      return absl::OkStatus();
    case Argument::kNamed:
      out->named.emplace_back(argument.name, std::move(value));
      return absl::OkStatus();
    case Argument::kList: {
      TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(value, &work_));
      TUTTI_RETURN_IF_ERROR(work_.ChargeValues(items->items.size()));
      out->positional.insert(out->positional.end(), items->items.begin(), items->items.end());
      return absl::OkStatus();
    }
    case Argument::kDict:
      break;
  }
  if (!value.IsDict()) return TypeError(value, "behind ** is not a mapping");
  TUTTI_RETURN_IF_ERROR(work_.Charge(value.weight()));
  for (const auto& [name, item] : value.dict()->items) {
    if (!name.IsStr()) return Invalid("keywords must be strings");
    out->named.emplace_back(name.str(), item);
  }
  return absl::OkStatus();
}

absl::StatusOr<CallArguments> ExpressionEvaluator::EvalArguments(
    const std::vector<Argument>& arguments) {
  CallArguments out;
  for (const Argument& argument : arguments) {
    TUTTI_RETURN_IF_ERROR(EvalArgument(argument, &out));
  }
  return out;
}

absl::StatusOr<Value> ExpressionEvaluator::EvalFilters(const Expr& expr, Value input) {
  if (!expr.children.empty()) {
    const Expr& child = *expr.children[0];
    if (child.kind == Expr::kFilter) {
      TUTTI_ASSIGN_OR_RETURN(input, EvalFilters(child, std::move(input)));
    } else {
      TUTTI_ASSIGN_OR_RETURN(input, Eval(child));
    }
  }
  if (expr.builtin == nullptr) return Invalid(absl::StrCat("no filter named '", expr.name, "'"));
  TUTTI_ASSIGN_OR_RETURN(const CallArguments arguments, EvalArguments(expr.arguments));
  return CallBuiltin(*expr.builtin, input, arguments, &work_);
}

absl::StatusOr<Value> ExpressionEvaluator::EvalTest(const Expr& expr) {
  TUTTI_ASSIGN_OR_RETURN(const Value subject, Eval(*expr.children[0]));
  if (expr.builtin == nullptr) return Invalid(absl::StrCat("no test named '", expr.name, "'"));
  TUTTI_ASSIGN_OR_RETURN(const CallArguments arguments, EvalArguments(expr.arguments));
  return CallBuiltin(*expr.builtin, subject, arguments, &work_);
}

absl::StatusOr<Value> ExpressionEvaluator::EvalCall(const Expr& expr, const Value* extra) {
  TUTTI_ASSIGN_OR_RETURN(const Value callee, Eval(*expr.children[0]));
  TUTTI_ASSIGN_OR_RETURN(CallArguments arguments, EvalArguments(expr.arguments));
  if (extra != nullptr) arguments.named.emplace_back("caller", *extra);
  if (callee.AsObject() == nullptr) return TypeError(callee, "is not callable");
  return CallObject(callee.AsObject(), std::move(arguments));
}

absl::StatusOr<Value> ExpressionEvaluator::CallObject(Object* object, CallArguments arguments) {
  switch (object->kind()) {
    case Object::kMacro:
      return CallMacro(*static_cast<MacroObject*>(object), std::move(arguments));
    case Object::kLoop: {
      if (arguments.positional.size() != 1 || !arguments.named.empty()) {
        return Invalid("loop() takes one argument");
      }
      TUTTI_ASSIGN_OR_RETURN(Text text,
                             CallLoop(*static_cast<LoopObject*>(object), arguments.positional[0]));
      return Value::Str(std::move(text));
    }
    case Object::kBlocks: {
      const Stmt* block = static_cast<BlocksObject*>(object)->called();
      if (block == nullptr) return Invalid("self is not callable");
      const Scopes::Inner inner(&scopes_, scopes_.outermost());
      TUTTI_ASSIGN_OR_RETURN(Text text, Capture(block->body));
      return Value::Str(std::move(text));
    }
    case Object::kFunction: {
      const Builtin& function = static_cast<FunctionObject*>(object)->function();
      absl::StatusOr<Value> value = object->Call(arguments, &work_);
      // The message of raise_exception is meant for the user as it is.
      if (!value.ok() && function.name == "raise_exception") placed_ = true;
      return value;
    }
    default:
      return object->Call(arguments, &work_);
  }
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

absl::StatusOr<Value> ExpressionEvaluator::CallMacro(const MacroObject& object,
                                                     CallArguments arguments) {
  const Scopes::Inner inner(&scopes_, object.closure());
  TUTTI_RETURN_IF_ERROR(work_.ChargeStrings(1));
  TUTTI_RETURN_IF_ERROR(BindMacro(object.macro(), std::move(arguments)));
  TUTTI_ASSIGN_OR_RETURN(Text text, Capture(object.macro().body));
  return Value::Str(std::move(text));
}

// The parameters, then what the body asks for by name, become variables of the innermost scope. A
// default may use the parameters before it.
absl::Status ExpressionEvaluator::BindMacro(const Macro& macro, CallArguments arguments) {
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    auto& named = arguments.named;
    const auto found = std::find_if(named.begin(), named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (found == named.end()) return std::nullopt;
    Value value = std::move(found->second);
    named.erase(found);
    return value;
  };
  const size_t count = macro.parameters.size();
  std::vector<Value> surplus;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    const bool positional = i < arguments.positional.size();
    std::optional<Value> value = positional ? arguments.positional[i] : take(name);
    if (!value.has_value() && macro.defaults[i] != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(value, Eval(*macro.defaults[i]));
    }
    if (!value.has_value()) {
      value = Value::Missing(absl::StrCat("parameter '", name, "' was not provided"));
    }
    scopes_.Assign(name, *std::move(value));
  }
  if (macro.uses_caller && scopes_.innermost()->Find("caller") == nullptr) {
    scopes_.Assign("caller", take("caller").value_or(Value::Missing("No caller defined")));
  }
  if (macro.uses_kwargs) {
    std::vector<std::pair<Value, Value>> rest;
    for (auto& [name, value] : arguments.named) {
      rest.emplace_back(Value::Literal(name), std::move(value));
    }
    TUTTI_ASSIGN_OR_RETURN(Value kwargs, Value::MakeDict(std::move(rest)));
    scopes_.Assign("kwargs", std::move(kwargs));
  } else if (!arguments.named.empty()) {
    return Invalid(absl::StrCat("macro '", macro.name, "' takes no keyword argument '",
                                arguments.named[0].first, "'"));
  }
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    surplus.push_back(arguments.positional[i]);
  }
  if (macro.uses_varargs) {
    TUTTI_ASSIGN_OR_RETURN(Value varargs, Value::MakeList(std::move(surplus), List::kTuple));
    scopes_.Assign("varargs", std::move(varargs));
  } else if (!surplus.empty()) {
    return Invalid(
        absl::StrCat("macro '", macro.name, "' takes not more than ", count, " arguments"));
  }
  return absl::OkStatus();
}

}  // namespace tutti::text::jinja
