#include "text/jinja/value.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

absl::Status NestsTooDeep() {
  return absl::InvalidArgumentError(
      absl::StrCat("a list or dict nests deeper than ", kTextJsonDepthMax));
}

// Takes one more member of a list or dict into its depth and weight.
absl::Status Grow(const Value& member, int* depth, int64_t* weight) {
  *depth = std::max(*depth, member.depth() + 1);
  if (*depth > kTextJsonDepthMax) return NestsTooDeep();
  *weight += member.weight();
  if (*weight > kTemplateStepsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a list or dict takes more than ", kTemplateStepsMax, " steps to walk"));
  }
  return absl::OkStatus();
}

}  // namespace

const Value* Dict::Find(const Value& key) const {
  for (const auto& [name, value] : items) {
    if (Equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name.IsStr() && name.str() == key) return &value;
  }
  return nullptr;
}

Value Value::Missing(std::string what) {
  return Value(std::make_shared<const jinja::Undefined>(jinja::Undefined{std::move(what)}), false);
}

Value Value::Big(std::string digits, bool from_user) {
  return Value(std::make_shared<const BigInteger>(BigInteger{std::move(digits)}), from_user);
}

absl::StatusOr<Value> Value::MakeList(std::vector<Value> items, List::Kind kind) {
  auto list = std::make_shared<jinja::List>();
  for (const Value& item : items) TUTTI_RETURN_IF_ERROR(Grow(item, &list->depth, &list->weight));
  list->items = std::move(items);
  list->kind = kind;
  return Value(std::shared_ptr<const jinja::List>(std::move(list)), false);
}

absl::StatusOr<Value> Value::MakeDict(std::vector<std::pair<Value, Value>> items) {
  auto dict = std::make_shared<jinja::Dict>();
  for (const auto& [key, value] : items) {
    TUTTI_RETURN_IF_ERROR(Grow(key, &dict->depth, &dict->weight));
    TUTTI_RETURN_IF_ERROR(Grow(value, &dict->depth, &dict->weight));
  }
  dict->items = std::move(items);
  return Value(std::shared_ptr<const jinja::Dict>(std::move(dict)), false);
}

double Value::AsDouble() const {
  if (IsFloat()) return Get<double>();
  if (!IsBig()) return static_cast<double>(AsInt());
  double number = 0;  // infinite where Python says "int too large to convert to float"
  (void)absl::SimpleAtod(digits(), &number);
  return number;
}

bool Value::Truth() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsBool()) return AsBool();
  if (IsInt()) return AsInt() != 0;
  if (IsFloat()) return AsDouble() != 0;
  if (IsStr()) return !text().empty();
  if (IsList()) return !list()->items.empty();
  if (IsDict()) return !dict()->items.empty();
  return true;
}

}  // namespace tutti::text::jinja
