#include "text/jinja/evaluator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/strings.h"
#include "text/jinja/work.h"

namespace tutti::text::jinja {
namespace {

absl::Status Invalid(std::string_view why) { return absl::InvalidArgumentError(Absl(why)); }

// Whether a body ran to its end or was left by break or continue.
enum class Flow { kNext, kBreak, kContinue };

class Evaluator {
 public:
  Evaluator(std::vector<std::pair<std::string, Value>> variables, std::optional<absl::Time> now)
      : variables_(std::move(variables)), work_(now), scopes_(1) {}

  absl::StatusOr<Text> Run(const Template& source) {
    TUTTI_ASSIGN_OR_RETURN(const Flow flow, RunBody(source.body));
    (void)flow;
    return std::move(out_);
  }

 private:
  using Scope = std::vector<std::pair<std::string_view, Value>>;

  // --- Variables ---

  static Value* FindIn(Scope* scope, std::string_view name) {
    for (auto& [known, value] : *scope) {
      if (known == name) return &value;
    }
    return nullptr;
  }
  Value Lookup(std::string_view name) {
    for (size_t i = scopes_.size(); i-- > 0;) {
      if (i > 0 && i < visible_from_)
        continue;  // a macro sees its own scopes and the outermost one
      if (const Value* found = FindIn(&scopes_[i], name); found != nullptr) return *found;
    }
    for (const auto& [known, value] : variables_) {
      if (known == name) return value;
    }
    return Value::Missing(absl::StrCat("'", Absl(name), "' is undefined"));
  }
  void Assign(std::string_view name, Value value) {
    if (Value* found = FindIn(&scopes_.back(), name); found != nullptr) {
      *found = std::move(value);
    } else {
      scopes_.back().emplace_back(name, std::move(value));
    }
  }
  absl::Status AssignTargets(const Stmt& stmt, const Value& value) {
    if (!stmt.unpack) {
      Assign(stmt.names[0], value);
      return absl::OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(value, &work_));
    if (items->items.size() != stmt.names.size()) {
      return Invalid(absl::StrCat("cannot unpack ", items->items.size(), " values into ",
                                  stmt.names.size(), " names"));
    }
    for (size_t i = 0; i < stmt.names.size(); ++i) Assign(stmt.names[i], items->items[i]);
    return absl::OkStatus();
  }

  // --- Statements ---

  // `status` with the line it came from, unless it already has one or is the template's own
  // message.
  absl::Status AtLine(int line, const absl::Status& status) {
    if (status.ok() || placed_) return status;
    placed_ = true;
    return Annotate(status, absl::StrCat("line ", line));
  }

  absl::StatusOr<Flow> RunBody(const Body& body) {
    for (const auto& stmt : body) {
      absl::StatusOr<Flow> flow = RunStmt(*stmt);
      if (!flow.ok()) return AtLine(stmt->line, flow.status());
      if (*flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  absl::StatusOr<Flow> RunStmt(const Stmt& stmt) {
    TUTTI_RETURN_IF_ERROR(work_.Charge(1));
    switch (stmt.kind) {
      case Stmt::kText:
        TUTTI_RETURN_IF_ERROR(Write(stmt.constant.text()));
        return Flow::kNext;
      case Stmt::kOutput: {
        TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
        if (value.IsStr()) {
          TUTTI_RETURN_IF_ERROR(Write(value.text()));
        } else {
          TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(value, &work_));
          TUTTI_RETURN_IF_ERROR(Write(text));
        }
        return Flow::kNext;
      }
      case Stmt::kIf:
        return RunIf(stmt);
      case Stmt::kFor:
        return RunFor(stmt);
      case Stmt::kSet: {
        TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
        TUTTI_RETURN_IF_ERROR(AssignTargets(stmt, value));
        return Flow::kNext;
      }
      case Stmt::kSetAttribute:
        TUTTI_RETURN_IF_ERROR(SetAttribute(stmt));
        return Flow::kNext;
      case Stmt::kSetBlock: {
        TUTTI_ASSIGN_OR_RETURN(Text text, Capture(stmt.body));
        Assign(stmt.names[0], Value::Str(std::move(text)));
        return Flow::kNext;
      }
      case Stmt::kMacro:
        Assign(stmt.macro->name, Value::Of(stmt.macro.get()));
        return Flow::kNext;
      case Stmt::kBreak:
        return Flow::kBreak;
      case Stmt::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  absl::Status Write(const Text& text) {
    TUTTI_RETURN_IF_ERROR(work_.ChargeBytes(text.memory()));
    if (out_.size() + text.size() > kTemplateOutputBytesMax) {
      return work_.ChargeBytes(out_.size() + text.size());
    }
    out_.Append(text);
    return absl::OkStatus();
  }

  // What `body` writes, in a scope of its own.
  absl::StatusOr<Text> Capture(const Body& body) {
    Text outer = std::exchange(out_, Text());
    scopes_.emplace_back();
    const absl::StatusOr<Flow> flow = RunBody(body);
    scopes_.pop_back();
    Text captured = std::exchange(out_, std::move(outer));
    if (!flow.ok()) return flow.status();
    return captured;
  }

  absl::StatusOr<Flow> RunIf(const Stmt& stmt) {
    for (const Branch& branch : stmt.branches) {
      if (branch.condition != nullptr) {
        TUTTI_ASSIGN_OR_RETURN(const Value condition, Eval(*branch.condition));
        if (!condition.Truth()) continue;
      }
      return RunBody(branch.body);
    }
    return Flow::kNext;
  }

  absl::StatusOr<Flow> RunFor(const Stmt& stmt) {
    TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
    TUTTI_ASSIGN_OR_RETURN(auto items, Iterate(value, &work_));
    if (stmt.filter != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(items, Filtered(stmt, *items));
    }
    if (items->items.empty()) return RunBody(stmt.otherwise);
    for (size_t i = 0; i < items->items.size(); ++i) {
      scopes_.emplace_back();
      TUTTI_RETURN_IF_ERROR(work_.ChargeStrings(1));
      Assign("loop", Value::Of(std::make_shared<const Loop>(Loop{items, i})));
      TUTTI_RETURN_IF_ERROR(AssignTargets(stmt, items->items[i]));
      TUTTI_ASSIGN_OR_RETURN(const Flow flow, RunBody(stmt.body));
      scopes_.pop_back();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  // The items for which the condition behind `if` holds. It sees the loop's variables but not
  // `loop`.
  absl::StatusOr<std::shared_ptr<const List>> Filtered(const Stmt& stmt, const List& items) {
    std::vector<Value> kept;
    TUTTI_RETURN_IF_ERROR(work_.ChargeValues(items.items.size()));
    for (const Value& item : items.items) {
      scopes_.emplace_back();
      TUTTI_RETURN_IF_ERROR(AssignTargets(stmt, item));
      TUTTI_ASSIGN_OR_RETURN(const Value condition, Eval(*stmt.filter));
      scopes_.pop_back();
      if (condition.Truth()) kept.push_back(item);
    }
    TUTTI_ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(kept)));
    return list.list();
  }

  absl::Status SetAttribute(const Stmt& stmt) {
    TUTTI_ASSIGN_OR_RETURN(Value value, Eval(*stmt.expr));
    Namespace* ns = Lookup(stmt.names[0]).AsNamespace();
    if (ns == nullptr) {
      return Invalid(absl::StrCat("cannot assign to an attribute of '", stmt.names[0],
                                  "', which is no namespace"));
    }
    ns->attributes[stmt.names[1]] = std::move(value);
    return absl::OkStatus();
  }

  // --- Expressions ---

  absl::StatusOr<Value> Eval(const Expr& expr) {
    TUTTI_RETURN_IF_ERROR(work_.Charge(1));
    absl::StatusOr<Value> value = EvalKind(expr);
    if (!value.ok()) return AtLine(expr.line, value.status());
    return value;
  }

  absl::StatusOr<Value> EvalKind(const Expr& expr) {
    switch (expr.kind) {
      case Expr::kConstant:
        return expr.constant;
      case Expr::kName:
        return Lookup(expr.name);
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
      case Expr::kNegate: {
        TUTTI_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.children[0]));
        if (!operand.IsNumber()) return TypeError(operand, "cannot be negated");
        if (operand.IsFloat()) {
          return Value::Float(-operand.AsDouble(), operand.number_from_user());
        }
        return Arithmetic("-", Value::Int(0), operand, &work_);
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
      case Expr::kConditional: {
        TUTTI_ASSIGN_OR_RETURN(const Value condition, Eval(*expr.children[1]));
        if (condition.Truth()) return Eval(*expr.children[0]);
        if (expr.children[2] != nullptr) return Eval(*expr.children[2]);
        return Value::Missing("the inline if-expression has no else and was false");
      }
    }
    return Value();
  }

  absl::StatusOr<std::vector<Value>> EvalAll(const std::vector<ExprPtr>& exprs) {
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

  absl::StatusOr<Value> EvalDict(const Expr& expr) {
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

  // A bound of a slice: absent when not written or None.
  absl::StatusOr<std::optional<int64_t>> Bound(const ExprPtr& expr) {
    if (expr == nullptr) return std::optional<int64_t>();
    TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*expr));
    if (value.IsNone()) return std::optional<int64_t>();
    if (!value.IsInt()) return TypeError(value, "cannot bound a slice");
    return std::optional<int64_t>(value.AsInt());
  }

  absl::StatusOr<Value> EvalSlice(const Expr& expr) {
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

  absl::StatusOr<Value> EvalCall(const Expr& expr) {
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

  absl::StatusOr<Value> EvalMacro(const Expr& expr) {
    const Macro* macro = Lookup(expr.name).AsMacro();
    if (macro == nullptr) return Invalid(absl::StrCat("'", expr.name, "' is not callable"));
    if (macro_depth_ >= kTemplateMacroDepthMax) {
      return Invalid(
          absl::StrCat("macros call each other more than ", kTemplateMacroDepthMax, " deep"));
    }
    TUTTI_ASSIGN_OR_RETURN(std::vector<Value> values, EvalAll(expr.arguments.values));
    TUTTI_ASSIGN_OR_RETURN(Scope scope, BindMacro(*macro, std::move(values), expr.arguments.names));
    ++macro_depth_;
    const size_t outer = std::exchange(visible_from_, scopes_.size());
    scopes_.push_back(std::move(scope));
    absl::Status status = FillDefaults(*macro);
    absl::StatusOr<Text> text = status.ok() ? Capture(macro->body) : status;
    scopes_.pop_back();
    visible_from_ = outer;
    --macro_depth_;
    if (!text.ok()) return text.status();
    return Value::Str(*std::move(text));
  }

  static absl::StatusOr<Scope> BindMacro(const Macro& macro, std::vector<Value> values,
                                         const std::vector<std::string>& names) {
    Scope scope;
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
      if (FindIn(&scope, macro.parameters[parameter]) != nullptr) {
        return Invalid(absl::StrCat("macro '", macro.name, "' is given '",
                                    macro.parameters[parameter], "' twice"));
      }
      scope.emplace_back(macro.parameters[parameter], std::move(values[i]));
    }
    return scope;
  }

  // Parameters that were not given; a default may use those before it.
  absl::Status FillDefaults(const Macro& macro) {
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const std::string& name = macro.parameters[i];
      if (FindIn(&scopes_.back(), name) != nullptr) continue;
      Value value = Value::Missing(absl::StrCat("parameter '", name, "' was not provided"));
      if (macro.defaults[i] != nullptr) {
        TUTTI_ASSIGN_OR_RETURN(value, Eval(*macro.defaults[i]));
      }
      scopes_.back().emplace_back(name, std::move(value));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Value> EvalConcat(const Expr& expr) {
    Text out;
    for (const ExprPtr& child : expr.children) {
      TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*child));
      TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(value, &work_));
      TUTTI_RETURN_IF_ERROR(work_.ChargeBytes(out.size() + text.size()));
      out.Append(text);
    }
    return Value::Str(std::move(out));
  }

  // a < b < c: each operand once, false as soon as one comparison is.
  absl::StatusOr<Value> EvalCompare(const Expr& expr) {
    TUTTI_ASSIGN_OR_RETURN(Value left, Eval(*expr.children[0]));
    for (size_t i = 0; i < expr.ops.size(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(Value right, Eval(*expr.children[i + 1]));
      TUTTI_ASSIGN_OR_RETURN(const bool holds, Compare(expr.ops[i], left, right, &work_));
      if (!holds) return Value::Bool(false);
      left = std::move(right);
    }
    return Value::Bool(true);
  }

  const std::vector<std::pair<std::string, Value>> variables_;
  Work work_;
  std::vector<Scope> scopes_;  // innermost last; names point into the template
  size_t visible_from_ = 0;
  int macro_depth_ = 0;
  Text out_;
  bool placed_ = false;  // the error on its way up names a line, or needs none
};

}  // namespace

absl::StatusOr<Text> Evaluate(const Template& source,
                              std::vector<std::pair<std::string, Value>> variables,
                              std::optional<absl::Time> now) {
  if (now.has_value()) variables.emplace_back("strftime_now", Value::Bool(true));
  return Evaluator(std::move(variables), now).Run(source);
}

}  // namespace tutti::text::jinja
