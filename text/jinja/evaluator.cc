#include "text/jinja/evaluator.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/expression_evaluator.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

absl::Status Invalid(std::string_view why) { return absl::InvalidArgumentError(Absl(why)); }

// Whether a body ran to its end or was left by break or continue.
enum class Flow { kNext, kBreak, kContinue };

class Evaluator final : private ExpressionEvaluator {
 public:
  Evaluator(std::vector<std::pair<std::string, Value>> variables, std::optional<absl::Time> now)
      : ExpressionEvaluator(std::move(variables), now) {}

  absl::StatusOr<Text> Run(const Template& source) {
    TUTTI_ASSIGN_OR_RETURN(const Flow flow, RunBody(source.body));
    (void)flow;
    return std::move(out_);
  }

 private:
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
        scopes_.Assign(stmt.names[0], Value::Str(std::move(text)));
        return Flow::kNext;
      }
      case Stmt::kMacro:
        scopes_.Assign(stmt.macro->name, Value::Of(stmt.macro.get()));
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

  absl::StatusOr<Text> Capture(const Body& body) override {
    Text outer = std::exchange(out_, Text());
    scopes_.Push();
    const absl::StatusOr<Flow> flow = RunBody(body);
    scopes_.Pop();
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
      scopes_.Push();
      TUTTI_RETURN_IF_ERROR(work_.ChargeStrings(1));
      scopes_.Assign("loop", Value::Of(std::make_shared<const Loop>(Loop{items, i})));
      TUTTI_RETURN_IF_ERROR(AssignTargets(stmt, items->items[i]));
      TUTTI_ASSIGN_OR_RETURN(const Flow flow, RunBody(stmt.body));
      scopes_.Pop();
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
      scopes_.Push();
      TUTTI_RETURN_IF_ERROR(AssignTargets(stmt, item));
      TUTTI_ASSIGN_OR_RETURN(const Value condition, Eval(*stmt.filter));
      scopes_.Pop();
      if (condition.Truth()) kept.push_back(item);
    }
    TUTTI_ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(kept)));
    return list.list();
  }

  absl::Status SetAttribute(const Stmt& stmt) {
    TUTTI_ASSIGN_OR_RETURN(Value value, Eval(*stmt.expr));
    Namespace* ns = scopes_.Lookup(stmt.names[0]).AsNamespace();
    if (ns == nullptr) {
      return Invalid(absl::StrCat("cannot assign to an attribute of '", stmt.names[0],
                                  "', which is no namespace"));
    }
    ns->attributes[stmt.names[1]] = std::move(value);
    return absl::OkStatus();
  }

  absl::Status AssignTargets(const Stmt& stmt, const Value& value) {
    if (!stmt.unpack) {
      scopes_.Assign(stmt.names[0], value);
      return absl::OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(value, &work_));
    if (items->items.size() != stmt.names.size()) {
      return Invalid(absl::StrCat("cannot unpack ", items->items.size(), " values into ",
                                  stmt.names.size(), " names"));
    }
    for (size_t i = 0; i < stmt.names.size(); ++i) scopes_.Assign(stmt.names[i], items->items[i]);
    return absl::OkStatus();
  }

  Text out_;
};

}  // namespace

absl::StatusOr<Text> Evaluate(const Template& source,
                              std::vector<std::pair<std::string, Value>> variables,
                              std::optional<absl::Time> now) {
  if (now.has_value()) variables.emplace_back("strftime_now", Value::Bool(true));
  return Evaluator(std::move(variables), now).Run(source);
}

}  // namespace tutti::text::jinja
