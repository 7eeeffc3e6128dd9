#include "text/jinja/evaluator.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/callables.h"
#include "text/jinja/expression_evaluator.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

// Whether a body ran to its end or was left by break or continue.
enum class Flow { kNext, kBreak, kContinue };

class Evaluator final : private ExpressionEvaluator {
 public:
  Evaluator(const Template& source, std::vector<std::pair<std::string, Value>> variables,
            std::optional<absl::Time> now)
      : ExpressionEvaluator(std::move(variables), now), template_(source) {}

  absl::StatusOr<Text> Run() {
    TUTTI_ASSIGN_OR_RETURN(const Flow flow, RunBody(template_.body));
    (void)flow;
    return std::move(out_);
  }

 private:
  absl::StatusOr<Flow> RunBody(const Body& body) {
    const Work::Level level(&work_);
    TUTTI_RETURN_IF_ERROR(work_.CheckDepth());
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
      case Stmt::kIf:
        return RunIf(stmt);
      case Stmt::kFor:
        return RunFor(stmt);
      case Stmt::kBreak:
        return Flow::kBreak;
      case Stmt::kContinue:
        return Flow::kContinue;
      case Stmt::kWith:
        return RunWith(stmt);
      case Stmt::kBlock: {
        const Scopes::Inner inner(&scopes_, stmt.recursive ? nullptr : scopes_.outermost());
        return RunBody(stmt.body);
      }
      default:
        TUTTI_RETURN_IF_ERROR(RunSimple(stmt));
        return Flow::kNext;
    }
  }

  absl::Status RunSimple(const Stmt& stmt) {
    switch (stmt.kind) {
      case Stmt::kText:
        return Write(stmt.constant.text());
      case Stmt::kOutput: {
        TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
        return WriteValue(value);
      }
      case Stmt::kSet: {
        TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
        return Assign(stmt.target, value);
      }
      case Stmt::kSetBlock:
      case Stmt::kFilterBlock: {
        TUTTI_ASSIGN_OR_RETURN(Value value, CaptureBlock(stmt));
        return stmt.kind == Stmt::kSetBlock ? Assign(stmt.target, value) : WriteString(value);
      }
      case Stmt::kMacro:
        TUTTI_RETURN_IF_ERROR(work_.ChargeStrings(1));
        scopes_.Assign(stmt.macro->name, NewMacro(*stmt.macro));
        return absl::OkStatus();
      case Stmt::kCallBlock: {
        TUTTI_RETURN_IF_ERROR(work_.ChargeStrings(1));
        const Value caller = NewMacro(*stmt.macro);
        TUTTI_ASSIGN_OR_RETURN(const Value value, EvalCall(*stmt.expr, &caller));
        return WriteString(value);
      }
      default:
        return Invalid(
            absl::StrCat("{% ", stmt.name, " %}: there are no other templates to load from"));
    }
  }

  Value NewMacro(const Macro& macro) {
    return Value::Of(std::make_shared<MacroObject>(&macro, scopes_.Keep()));
  }

  absl::Status Write(const Text& text) {
    TUTTI_RETURN_IF_ERROR(work_.ChargeBytes(text.memory()));
    if (out_.size() + text.size() > kTemplateOutputBytesMax) {
      return work_.ChargeBytes(out_.size() + text.size());
    }
    out_.Append(text);
    return absl::OkStatus();
  }

  absl::Status WriteValue(const Value& value) {
    if (value.IsStr()) return Write(value.text());
    TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(value, &work_));
    return Write(text);
  }

  // The output of a block: Jinja puts together what blocks give, which is not turned into text.
  absl::Status WriteString(const Value& value) {
    if (!value.IsStr()) return TypeError(value, "cannot be put into the text, it is no str");
    return Write(value.text());
  }

  absl::StatusOr<Text> Capture(const Body& body) override {
    Text outer = std::exchange(out_, Text());
    const absl::StatusOr<Flow> flow = RunBody(body);
    Text captured = std::exchange(out_, std::move(outer));
    if (!flow.ok()) return flow.status();
    return captured;
  }

  // The text of a block, after its filters.
  absl::StatusOr<Value> CaptureBlock(const Stmt& stmt) {
    Value value;
    {
      const Scopes::Inner inner(&scopes_);
      TUTTI_ASSIGN_OR_RETURN(Text text, Capture(stmt.body));
      value = Value::Str(std::move(text));
    }
    if (stmt.filter == nullptr) return value;
    return EvalFilters(*stmt.filter, std::move(value));
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

  // Values see the variables outside.
  absl::StatusOr<Flow> RunWith(const Stmt& stmt) {
    std::vector<Value> values;
    for (const auto& [target, expr] : stmt.assignments) {
      TUTTI_ASSIGN_OR_RETURN(Value value, Eval(*expr));
      values.push_back(std::move(value));
    }
    const Scopes::Inner inner(&scopes_);
    for (size_t i = 0; i < values.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(Assign(stmt.assignments[i].first, values[i]));
    }
    return RunBody(stmt.body);
  }

  absl::StatusOr<Flow> RunFor(const Stmt& stmt) {
    TUTTI_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
    return RunLoop(stmt, value, 0);
  }

  absl::StatusOr<Text> CallLoop(const LoopObject& loop, const Value& items) override {
    if (!loop.stmt().recursive) {
      return Invalid("the loop must have the 'recursive' marker to be called recursively");
    }
    if (loop.has_ended()) return Invalid("the loop has ended and cannot be called");
    Text outer = std::exchange(out_, Text());
    absl::StatusOr<Flow> flow = Flow::kNext;
    {
      const Scopes::Inner inner(&scopes_, loop.outside());
      flow = RunLoop(loop.stmt(), items, loop.depth0() + 1);
    }
    Text captured = std::exchange(out_, std::move(outer));
    if (!flow.ok()) return flow.status();
    return captured;
  }

  absl::StatusOr<Flow> RunLoop(const Stmt& stmt, const Value& value, int depth0) {
    TUTTI_RETURN_IF_ERROR(work_.ChargeStrings(1));
    LoopObject::NextItem next;
    std::optional<int64_t> length;
    Object* const object = value.AsObject();
    if (object != nullptr && object->kind() == Object::kGenerator) {
      next = [value] { return static_cast<Generator*>(value.AsObject())->Next(); };
    } else {
      TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(value, &work_));
      next = [items, i = size_t{0}]() mutable -> absl::StatusOr<std::optional<Value>> {
        if (i >= items->items.size()) return std::optional<Value>();
        return std::optional<Value>(items->items[i++]);
      };
      if (stmt.filter == nullptr) length = static_cast<int64_t>(items->items.size());
    }
    Scope* const outside = scopes_.innermost();
    if (stmt.filter != nullptr) next = Filtered(stmt, std::move(next), outside);
    const auto loop = std::make_shared<LoopObject>(&stmt, outside, std::move(next), length, depth0);
    absl::StatusOr<Flow> flow = RunItems(stmt, loop);
    loop->End();
    return flow;
  }

  absl::StatusOr<Flow> RunItems(const Stmt& stmt, const std::shared_ptr<LoopObject>& loop) {
    bool any = false;
    while (true) {
      TUTTI_ASSIGN_OR_RETURN(const bool more, loop->Advance());
      if (!more) break;
      any = true;
      TUTTI_RETURN_IF_ERROR(work_.ChargeStrings(1));
      const Scopes::Inner inner(&scopes_);
      scopes_.Assign("loop", Value::Of(loop));
      TUTTI_RETURN_IF_ERROR(Assign(stmt.target, loop->current()));
      TUTTI_ASSIGN_OR_RETURN(const Flow flow, RunBody(stmt.body));
      if (flow == Flow::kBreak) return Flow::kNext;
    }
    if (any || stmt.otherwise.empty()) return Flow::kNext;
    const Scopes::Inner inner(&scopes_);
    return RunBody(stmt.otherwise);
  }

  // The items for which the condition behind `if` holds when it is their turn. It sees the loop's
  // variables but not `loop`.
  LoopObject::NextItem Filtered(const Stmt& stmt, LoopObject::NextItem items, Scope* outside) {
    return [this, &stmt, items = std::move(items),
            outside]() mutable -> absl::StatusOr<std::optional<Value>> {
      while (true) {
        TUTTI_RETURN_IF_ERROR(work_.ChargeValues(1));
        TUTTI_ASSIGN_OR_RETURN(std::optional<Value> item, items());
        if (!item.has_value()) return item;
        const Scopes::Inner inner(&scopes_, outside);
        TUTTI_RETURN_IF_ERROR(Assign(stmt.target, *item));
        TUTTI_ASSIGN_OR_RETURN(const Value condition, Eval(*stmt.filter));
        if (condition.Truth()) return item;
      }
    };
  }

  const Stmt* FindBlock(std::string_view name) const override {
    for (const Stmt* block : template_.blocks) {
      if (block->name == name) return block;
    }
    return nullptr;
  }

  absl::Status AssignName(const Target& target, const Value& value) {
    if (target.attribute.empty()) {
      scopes_.Assign(target.name, value);
      return absl::OkStatus();
    }
    Namespace* ns = scopes_.Lookup(target.name).AsNamespace();
    if (ns == nullptr) {
      return Invalid(absl::StrCat("cannot assign to an attribute of '", target.name,
                                  "', which is not a namespace"));
    }
    if (target.attribute.starts_with('_')) {
      return Invalid(absl::StrCat("a namespace has no attribute '", target.attribute,
                                  "': names must not begin with _"));
    }
    ns->attributes[target.attribute] = value;
    return absl::OkStatus();
  }

  absl::Status Assign(const Target& target, const Value& value) {
    if (!target.is_tuple) return AssignName(target, value);
    TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(value, &work_));
    if (items->items.size() != target.parts.size()) {
      return Invalid(absl::StrCat("cannot unpack ", items->items.size(), " values into ",
                                  target.parts.size(), " names"));
    }
    for (size_t i = 0; i < target.parts.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(Assign(target.parts[i], items->items[i]));
    }
    return absl::OkStatus();
  }

  const Template& template_;
  Text out_;
};

}  // namespace

absl::StatusOr<Text> Evaluate(const Template& source,
                              std::vector<std::pair<std::string, Value>> variables,
                              std::optional<absl::Time> now) {
  return Evaluator(source, std::move(variables), now).Run();
}

}  // namespace tutti::text::jinja
