#include "text/jinja/object.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtins.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

Cycler& AsCycler(const Value& self) { return *static_cast<Cycler*>(self.AsObject()); }

absl::StatusOr<Value> CyclerNext(const Value& self, const Call&) {
  Value value = AsCycler(self).current();
  AsCycler(self).Advance();
  return value;
}

absl::StatusOr<Value> CyclerReset(const Value& self, const Call&) {
  AsCycler(self).Reset();
  return Value();
}

}  // namespace

absl::StatusOr<std::optional<Value>> Object::Attribute(std::string_view, Work*) {
  return std::optional<Value>();
}

absl::StatusOr<Value> Object::Call(const CallArguments&, Work*) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", Absl(TypeName()), "' object is not callable"));
}

absl::Status Object::Hold(const Value& member) {
  depth_ = std::max(depth_, member.depth() + 1);
  weight_ += member.weight();
  if (depth_ > kTextJsonDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a value nests deeper than ", kTextJsonDepthMax));
  }
  if (weight_ <= kTemplateStepsMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a value takes more than ", kTemplateStepsMax, " steps to walk"));
}

absl::StatusOr<Value> BoundMethod::Make(Value self, const Builtin* method) {
  std::shared_ptr<BoundMethod> bound(new BoundMethod(std::move(self), method));
  TUTTI_RETURN_IF_ERROR(bound->Hold(bound->self_));
  return Value::Of(std::move(bound));
}

absl::StatusOr<Value> BoundMethod::Call(const CallArguments& arguments, Work* work) {
  return CallBuiltin(*method_, self_, arguments, work);
}

absl::StatusOr<std::optional<Value>> FunctionObject::Attribute(std::string_view name, Work*) {
  if (function_->name != "dict" || name != "fromkeys") return std::optional<Value>();
  TUTTI_ASSIGN_OR_RETURN(Value method, BoundMethod::Make(Value(), FindFunction("dict.fromkeys")));
  return std::optional<Value>(std::move(method));
}

absl::StatusOr<Value> FunctionObject::Call(const CallArguments& arguments, Work* work) {
  return CallBuiltin(*function_, Value(), arguments, work);
}

absl::StatusOr<Value> Generator::Make(std::vector<Value> items, absl::Status end) {
  std::shared_ptr<Generator> generator(new Generator(std::move(items), std::move(end)));
  for (const Value& item : generator->items_) TUTTI_RETURN_IF_ERROR(generator->Hold(item));
  return Value::Of(std::move(generator));
}

absl::StatusOr<std::optional<Value>> Generator::Next() {
  if (next_ < items_.size()) return std::optional<Value>(items_[next_++]);
  if (next_++ == items_.size() && !end_.ok()) return end_;
  return std::optional<Value>();
}

absl::StatusOr<Value> Cycler::Make(std::vector<Value> items) {
  std::shared_ptr<Cycler> cycler(new Cycler(std::move(items)));
  for (const Value& item : cycler->items_) TUTTI_RETURN_IF_ERROR(cycler->Hold(item));
  return Value::Of(std::move(cycler));
}

absl::StatusOr<std::optional<Value>> Cycler::Attribute(std::string_view name, Work*) {
  static const Builtin kNext = {.name = "next", .function = CyclerNext};
  static const Builtin kReset = {.name = "reset", .function = CyclerReset};
  if (name == "current") return std::optional<Value>(current());
  if (name != "next" && name != "reset") return std::optional<Value>();
  // The method holds what it belongs to: attributes are asked of a shared object only.
  TUTTI_ASSIGN_OR_RETURN(Value method, BoundMethod::Make(Value::Of(shared_from_this()),
                                                         name == "next" ? &kNext : &kReset));
  return std::optional<Value>(std::move(method));
}

absl::StatusOr<Value> Joiner::Call(const CallArguments& arguments, Work*) {
  if (!arguments.positional.empty() || !arguments.named.empty()) {
    return absl::InvalidArgumentError("a joiner takes no arguments");
  }
  if (used_) return separator_;
  used_ = true;
  return Value::Literal("");
}

}  // namespace tutti::text::jinja
