#include "text/jinja/callables.h"

#include <algorithm>
#include <string>

#include "base/status.h"
#include "text/jinja/builtins.h"

namespace tutti::text::jinja {
namespace {

LoopObject& AsLoop(const Value& self) { return *static_cast<LoopObject*>(self.AsObject()); }

absl::StatusOr<Value> LoopCycle(const Value& self, const Call& call) {
  return AsLoop(self).Cycle(call.values);
}

absl::StatusOr<Value> LoopChanged(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Value values, Value::MakeList(call.values, List::kTuple));
  return AsLoop(self).Changed(values);
}

}  // namespace

absl::StatusOr<std::optional<Value>> MacroObject::Attribute(std::string_view name, Work*) {
  if (name != "name") return std::optional<Value>();
  return std::optional<Value>(Value::Literal(macro_->name));
}

absl::StatusOr<std::optional<Value>> LoopObject::ReadNext() {
  if (has_ended_) return std::optional<Value>();
  return next_();
}

absl::StatusOr<std::optional<Value>> LoopObject::Peek() {
  if (!ahead_.empty()) return std::optional<Value>(ahead_.back());
  TUTTI_ASSIGN_OR_RETURN(std::optional<Value> item, ReadNext());
  if (item.has_value()) ahead_.push_back(*item);
  return item;
}

absl::StatusOr<bool> LoopObject::Advance() {
  TUTTI_ASSIGN_OR_RETURN(std::optional<Value> item, Peek());
  if (!item.has_value()) return false;
  ahead_.pop_back();
  ++index0_;
  before_ = std::move(current_);
  current_ = *std::move(item);
  return true;
}

absl::StatusOr<int64_t> LoopObject::Length() {
  if (length_.has_value()) return *length_;
  std::vector<Value> rest;
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(std::optional<Value> item, ReadNext());
    if (!item.has_value()) break;
    rest.push_back(*std::move(item));
  }
  std::reverse(rest.begin(), rest.end());
  rest.insert(rest.end(), ahead_.begin(), ahead_.end());
  ahead_ = std::move(rest);
  length_ = index0_ + 1 + static_cast<int64_t>(ahead_.size());
  return *length_;
}

absl::StatusOr<Value> LoopObject::Method(std::string_view name) {
  static const Builtin kCycle = {.name = "cycle", .function = LoopCycle, .more = true};
  static const Builtin kChanged = {.name = "changed", .function = LoopChanged, .more = true};
  return BoundMethod::Make(Value::Of(shared_from_this()), name == "cycle" ? &kCycle : &kChanged);
}

absl::StatusOr<Value> LoopObject::Cycle(const std::vector<Value>& values) const {
  if (values.empty()) return absl::InvalidArgumentError("no items for cycling given");
  return values[static_cast<size_t>(index0_) % values.size()];
}

Value LoopObject::Changed(const Value& values) {
  if (has_changed_ && Equal(last_changed_, values)) return Value::Bool(false);
  has_changed_ = true;
  last_changed_ = values;
  return Value::Bool(true);
}

absl::StatusOr<std::optional<Value>> LoopObject::Attribute(std::string_view name, Work*) {
  using Found = std::optional<Value>;
  if (name == "index0") return Found(Value::Int(index0_));
  if (name == "index") return Found(Value::Int(index0_ + 1));
  if (name == "first") return Found(Value::Bool(index0_ == 0));
  if (name == "depth") return Found(Value::Int(depth0_ + 1));
  if (name == "depth0") return Found(Value::Int(depth0_));
  if (name == "previtem") {
    return Found(index0_ > 0 ? before_ : Value::Missing("there is no previous item"));
  }
  if (name == "last" || name == "nextitem") {
    TUTTI_ASSIGN_OR_RETURN(const Found next, Peek());
    if (name == "last") return Found(Value::Bool(!next.has_value()));
    return Found(next.has_value() ? *next : Value::Missing("there is no next item"));
  }
  if (name == "cycle" || name == "changed") {
    TUTTI_ASSIGN_OR_RETURN(Value method, Method(name));
    return Found(std::move(method));
  }
  if (name != "length" && name != "revindex" && name != "revindex0") return Found();
  TUTTI_ASSIGN_OR_RETURN(const int64_t length, Length());
  if (name == "length") return Found(Value::Int(length));
  return Found(Value::Int(length - index0_ - (name == "revindex" ? 0 : 1)));
}

}  // namespace tutti::text::jinja
