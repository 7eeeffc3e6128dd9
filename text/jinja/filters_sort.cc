// Filters that compare items with each other.
#include <algorithm>
#include <bit>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/builtin_tables.h"
#include "text/jinja/object.h"
#include "text/jinja/operations.h"

namespace tutti::text::jinja {
namespace {

// The indices of `keys` in Python's sorted order, where equal ones keep theirs.
absl::StatusOr<std::vector<size_t>> SortedOrder(const std::vector<Value>& keys, bool reverse,
                                                Work* work) {
  int64_t weight = 0;
  for (const Value& key : keys) weight += key.weight();
  TUTTI_RETURN_IF_ERROR(work->Charge(weight * std::bit_width(keys.size())));
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  absl::Status status;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!status.ok()) return false;
    const absl::StatusOr<bool> less =
        reverse ? Compare("<", keys[b], keys[a], work) : Compare("<", keys[a], keys[b], work);
    if (!less.ok()) status = less.status();
    return less.ok() && *less;
  });
  if (!status.ok()) return status;
  return order;
}

absl::StatusOr<Value> Key(const Value& item, const Value& attribute, bool case_sensitive,
                          const Value* fallback, Work* work) {
  TUTTI_ASSIGN_OR_RETURN(const Value value, FollowAttribute(item, attribute, fallback, work));
  if (value.IsStr()) TUTTI_RETURN_IF_ERROR(work->Charge(value.weight()));
  return case_sensitive ? value : IgnoreCase(value);
}

// A key of each comma separated attribute.
absl::StatusOr<Value> Keys(const Value& item, const Value& attribute, bool case_sensitive,
                           Work* work) {
  std::vector<Value> keys;
  std::string_view rest = attribute.IsStr() ? attribute.str() : std::string_view();
  while (true) {
    const size_t comma = rest.find(',');
    const Value part =
        attribute.IsStr() ? Value::Literal(std::string(rest.substr(0, comma))) : attribute;
    TUTTI_ASSIGN_OR_RETURN(Value key, Key(item, part, case_sensitive, nullptr, work));
    keys.push_back(std::move(key));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return Value::MakeList(std::move(keys));
}

absl::StatusOr<Value> Sort(const Value& self, const Call& call) {
  enum { kReverse, kCaseSensitive, kAttribute };
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(2 * items->items.size()));
  const Value attribute = call.Has(kAttribute) ? call.values[kAttribute] : Value();
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    TUTTI_ASSIGN_OR_RETURN(Value key,
                           Keys(item, attribute, BoolArgument(call, kCaseSensitive), call.work));
    keys.push_back(std::move(key));
  }
  TUTTI_ASSIGN_OR_RETURN(const auto order,
                         SortedOrder(keys, BoolArgument(call, kReverse), call.work));
  std::vector<Value> sorted;
  for (const size_t i : order) sorted.push_back(items->items[i]);
  return Value::MakeList(std::move(sorted));
}

absl::StatusOr<Value> DictSort(const Value& self, const Call& call) {
  enum { kCaseSensitive, kBy, kReverse };
  if (!self.IsDict()) return TypeError(self, "has no items");
  std::string_view by = "key";
  if (call.Has(kBy)) by = call.values[kBy].IsStr() ? call.values[kBy].str() : "";
  if (by != "key" && by != "value") {
    return absl::InvalidArgumentError("You can only sort by either \"key\" or \"value\"");
  }
  TUTTI_ASSIGN_OR_RETURN(const Value pairs,
                         CallBuiltin(*FindDictMethod("items"), self, {}, call.work));
  std::vector<Value> keys;
  for (const auto& [key, value] : self.dict()->items) {
    TUTTI_ASSIGN_OR_RETURN(
        Value sort_key, Key(by == "key" ? key : value, Value(), BoolArgument(call, kCaseSensitive),
                            nullptr, call.work));
    keys.push_back(std::move(sort_key));
  }
  TUTTI_ASSIGN_OR_RETURN(const auto order,
                         SortedOrder(keys, BoolArgument(call, kReverse), call.work));
  std::vector<Value> sorted;
  for (const size_t i : order) sorted.push_back(pairs.list()->items[i]);
  return Value::MakeList(std::move(sorted));
}

absl::StatusOr<Value> GroupBy(const Value& self, const Call& call) {
  enum { kAttribute, kDefault, kCaseSensitive };
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(2 * items->items.size()));
  const Value* const fallback = call.HasValue(kDefault) ? &call.values[kDefault] : nullptr;
  const bool case_sensitive = BoolArgument(call, kCaseSensitive);
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    TUTTI_ASSIGN_OR_RETURN(Value key,
                           Key(item, call.values[kAttribute], case_sensitive, fallback, call.work));
    keys.push_back(std::move(key));
  }
  TUTTI_ASSIGN_OR_RETURN(const auto order, SortedOrder(keys, false, call.work));
  std::vector<Value> groups;
  for (size_t i = 0; i < order.size();) {
    std::vector<Value> members;
    const size_t begin = i;
    for (; i < order.size() && Equal(keys[order[begin]], keys[order[i]]); ++i) {
      TUTTI_RETURN_IF_ERROR(call.work->Charge(keys[order[i]].weight()));
      members.push_back(items->items[order[i]]);
    }
    // Named as the first of its members has it.
    TUTTI_ASSIGN_OR_RETURN(const Value name, FollowAttribute(members[0], call.values[kAttribute],
                                                             fallback, call.work));
    TUTTI_ASSIGN_OR_RETURN(Value list, Value::MakeList(std::move(members)));
    TUTTI_ASSIGN_OR_RETURN(Value group, Value::MakeList({name, std::move(list)}, List::kGroup));
    groups.push_back(std::move(group));
  }
  return Value::MakeList(std::move(groups));
}

template <bool maximum>
absl::StatusOr<Value> Extreme(const Value& self, const Call& call) {
  enum { kCaseSensitive, kAttribute };
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  if (items->items.empty()) {
    return Value::Missing("No aggregated item, sequence was empty.");
  }
  const Value attribute = call.Has(kAttribute) ? call.values[kAttribute] : Value();
  const bool case_sensitive = BoolArgument(call, kCaseSensitive);
  Value best = items->items[0], best_key;
  TUTTI_ASSIGN_OR_RETURN(best_key, Key(best, attribute, case_sensitive, nullptr, call.work));
  for (size_t i = 1; i < items->items.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(const Value key,
                           Key(items->items[i], attribute, case_sensitive, nullptr, call.work));
    TUTTI_ASSIGN_OR_RETURN(const bool better,
                           Compare(maximum ? ">" : "<", key, best_key, call.work));
    if (!better) continue;
    best = items->items[i];
    best_key = key;
  }
  return best;
}

absl::StatusOr<Value> Unique(const Value& self, const Call& call) {
  enum { kCaseSensitive, kAttribute };
  if (!IsIterable(self)) return Generator::Make({}, TypeError(self, "is not iterable"));
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  const Value attribute = call.Has(kAttribute) ? call.values[kAttribute] : Value();
  std::vector<Value> keys, out;
  for (const Value& item : items->items) {
    absl::StatusOr<Value> key =
        Key(item, attribute, BoolArgument(call, kCaseSensitive), nullptr, call.work);
    absl::Status status = key.status();
    if (status.ok()) status = CheckHashable(*key, call.work);
    if (!status.ok()) return Generator::Make(std::move(out), status);
    TUTTI_RETURN_IF_ERROR(call.work->Charge(static_cast<int64_t>(1 + keys.size() / 4)));
    TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(2));
    const bool known = std::any_of(keys.begin(), keys.end(),
                                   [&](const Value& other) { return Equal(other, *key); });
    if (known) continue;
    keys.push_back(*std::move(key));
    out.push_back(item);
  }
  return Generator::Make(std::move(out));
}

}  // namespace

const std::vector<Builtin>& SortFilters() {
  static const auto* const table = new std::vector<Builtin>{
      {"dictsort", DictSort, {"case_sensitive", "by", "reverse"}},
      {"groupby", GroupBy, {"attribute", "default", "case_sensitive"}, 1},
      {"max", Extreme<true>, {"case_sensitive", "attribute"}},
      {"min", Extreme<false>, {"case_sensitive", "attribute"}},
      {"sort", Sort, {"reverse", "case_sensitive", "attribute"}},
      {"unique", Late<Unique>, {"case_sensitive", "attribute"}},
  };
  return *table;
}

}  // namespace tutti::text::jinja
