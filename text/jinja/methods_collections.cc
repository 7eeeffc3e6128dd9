// Methods of lists, tuples, ranges and dicts.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/operations.h"

namespace tutti::text::jinja {
namespace {

absl::StatusOr<Value> Items(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight()));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(self.dict()->items.size()));
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->items) {
    TUTTI_ASSIGN_OR_RETURN(Value pair, Value::MakeList({key, value}, List::kTuple));
    pairs.push_back(std::move(pair));
  }
  return Value::MakeList(std::move(pairs), List::kItems);
}

absl::StatusOr<Value> Keys(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto keys, Iterate(self, call.work));
  return Value::MakeList(keys->items, List::kKeys);
}

absl::StatusOr<Value> Values(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(self.dict()->items.size()));
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict()->items) values.push_back(value);
  return Value::MakeList(std::move(values), List::kValues);
}

absl::StatusOr<Value> Get(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->Charge(static_cast<int64_t>(self.dict()->items.size()) / 8));
  TUTTI_RETURN_IF_ERROR(CheckHashable(call.values[0], call.work));
  const Value* found = self.dict()->Find(call.values[0]);
  if (found != nullptr) return *found;
  return call.Has(1) ? call.values[1] : Value();
}

// Nothing of it can be changed: the copy is as good as the original.
absl::StatusOr<Value> Copy(const Value& self, const Call&) { return self; }

absl::StatusOr<Value> CountItem(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight()));
  const std::vector<Value>& items = self.list()->items;
  return Value::Int(std::count_if(items.begin(), items.end(),
                                  [&](const Value& item) { return Equal(item, call.values[0]); }));
}

absl::StatusOr<Value> IndexOf(const Value& self, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight()));
  if (self.list()->kind == List::kRange && call.Has(1)) {
    return absl::InvalidArgumentError("range.index() takes exactly one argument");
  }
  const auto size = static_cast<int64_t>(self.list()->items.size());
  TUTTI_ASSIGN_OR_RETURN(int64_t begin, IntArgument(call, 1, 0));
  TUTTI_ASSIGN_OR_RETURN(int64_t end, IntArgument(call, 2, size));
  if (begin < 0) begin = std::max<int64_t>(begin + size, 0);
  if (end < 0) end += size;
  for (int64_t i = begin; i < std::min(end, size); ++i) {
    if (Equal(self.list()->items[static_cast<size_t>(i)], call.values[0])) return Value::Int(i);
  }
  return absl::InvalidArgumentError("the value is not in the list");
}

}  // namespace

const Builtin* FindDictMethod(std::string_view name) {
  static const auto* const table = new std::vector<Builtin>{
      {"copy", Copy},     {"get", Get, {"key", "default"}, 1, false, kPositional},
      {"items", Items},   {"keys", Keys},
      {"values", Values},
  };
  return FindIn(*table, name);
}

const Builtin* FindListMethod(std::string_view name) {
  static const auto* const table = new std::vector<Builtin>{
      {"copy", Copy},
      {"count", CountItem, {"value"}, 1, false, kPositional},
      {"index", IndexOf, {"value", "start", "stop"}, 1, false, kPositional},
  };
  return FindIn(*table, name);
}

}  // namespace tutti::text::jinja
