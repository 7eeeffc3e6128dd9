// Filters of sequences: their items one by one or in groups.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/builtin_tables.h"
#include "text/jinja/format.h"
#include "text/jinja/object.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

bool IsGenerator(const Value& value) {
  return value.AsObject() != nullptr && value.AsObject()->kind() == Object::kGenerator;
}

absl::StatusOr<Value> LengthFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const int64_t length, Length(self, call.work));
  return Value::Int(length);
}

absl::StatusOr<Value> ListFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(items->items.size()));
  return Value::MakeList(items->items);
}

absl::StatusOr<Value> First(const Value& self, const Call& call) {
  const Value none = Value::Missing("No first item, sequence was empty.");
  if (IsGenerator(self)) {
    TUTTI_ASSIGN_OR_RETURN(const auto item, static_cast<Generator*>(self.AsObject())->Next());
    return item.value_or(none);
  }
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  return items->items.empty() ? none : items->items.front();
}

absl::StatusOr<Value> Last(const Value& self, const Call& call) {
  if (IsGenerator(self)) return TypeError(self, "is not reversible");
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  if (items->items.empty()) return Value::Missing("No last item, sequence was empty.");
  // Markup gives its characters by index, as here, as markup; first reads them one by one.
  const Value& last = items->items.back();
  return self.IsMarkup() ? Value::Str(last.text(), /*is_markup=*/true) : last;
}

absl::StatusOr<Value> Reverse(const Value& self, const Call& call) {
  if (self.IsStr()) {
    TUTTI_ASSIGN_OR_RETURN(Text text,
                           SliceText(self.text(), std::nullopt, std::nullopt, -1, call.work));
    return Value::Str(std::move(text), self.IsMarkup());
  }
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(items->items.size()));
  std::vector<Value> reversed(items->items.rbegin(), items->items.rend());
  if (IsGenerator(self)) return Value::MakeList(std::move(reversed));
  return Generator::Make(std::move(reversed));
}

absl::StatusOr<Value> ItemsFilter(const Value& self, const Call& call) {
  if (self.IsUndefined()) return Generator::Make({});
  // An error in the input of a generator is found when it is read.
  if (!self.IsDict()) return Generator::Make({}, TypeError(self, "is not a mapping"));
  TUTTI_ASSIGN_OR_RETURN(const Value items,
                         CallBuiltin(*FindDictMethod("items"), self, {}, call.work));
  return Generator::Make(items.list()->items);
}

absl::StatusOr<Value> Join(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const Text separator, TextArgument(call, 0));
  Text out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    Value item = items->items[i];
    if (call.HasValue(1)) {
      TUTTI_ASSIGN_OR_RETURN(item, FollowAttribute(item, call.values[1], nullptr, call.work));
    }
    TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(item, call.work));
    if (i > 0) out.Append(separator);
    out.Append(text);
    TUTTI_RETURN_IF_ERROR(
        call.work->Charge(static_cast<int64_t>(separator.memory()) / kTemplateBytesPerStep));
    if (out.size() > kTemplateOutputBytesMax) return call.work->ChargeBytes(out.size());
  }
  return Value::Str(std::move(out));
}

absl::StatusOr<Value> Sum(const Value& self, const Call& call) {
  enum { kAttribute, kStart };
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  Value sum = call.Has(kStart) ? call.values[kStart] : Value::Int(0);
  if (sum.IsStr()) return absl::InvalidArgumentError("sum() can't sum strings");
  for (const Value& item : items->items) {
    Value value = item;
    if (call.HasValue(kAttribute)) {
      TUTTI_ASSIGN_OR_RETURN(value,
                             FollowAttribute(item, call.values[kAttribute], nullptr, call.work));
    }
    TUTTI_ASSIGN_OR_RETURN(sum, Arithmetic("+", sum, value, call.work));
  }
  return sum;
}

// The number of rows or columns: at least one.
absl::StatusOr<int64_t> CountOf(const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const int64_t count, IntArgument(call, 0, 0));
  if (count == 0) return absl::InvalidArgumentError("integer division or modulo by zero");
  if (count > kTemplateRangeItemsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a count of more than ", kTemplateRangeItemsMax));
  }
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(static_cast<size_t>(std::max<int64_t>(count, 0))));
  return count;
}

absl::StatusOr<Value> Slice(const Value& self, const Call& call) {
  if (!IsIterable(self)) return Generator::Make({}, TypeError(self, "is not iterable"));
  TUTTI_ASSIGN_OR_RETURN(const auto list, Iterate(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const int64_t slices, CountOf(call));
  const std::vector<Value>& items = list->items;
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(items.size()));
  std::vector<Value> out;
  size_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < static_cast<int64_t>(items.size()) % slices;
    const size_t length = items.size() / static_cast<size_t>(slices) + (extra ? 1 : 0);
    std::vector<Value> slice(items.begin() + static_cast<int64_t>(at),
                             items.begin() + static_cast<int64_t>(at + length));
    if (call.HasValue(1) && !extra) slice.push_back(call.values[1]);
    at += length;
    TUTTI_ASSIGN_OR_RETURN(Value made, Value::MakeList(std::move(slice)));
    out.push_back(std::move(made));
  }
  return Generator::Make(std::move(out));
}

// Copies of `filler` until there are `count`.
absl::Status Fill(const Value& count, const Value& filler, std::vector<Value>* batch, Work* work) {
  const Value size = Value::Int(std::ssize(*batch));
  TUTTI_ASSIGN_OR_RETURN(const bool is_short, Compare("<", size, count, work));
  if (!is_short) return absl::OkStatus();
  TUTTI_ASSIGN_OR_RETURN(const Value missing, Arithmetic("-", count, size, work));
  TUTTI_ASSIGN_OR_RETURN(const Value filler_list, Value::MakeList({filler}));
  TUTTI_ASSIGN_OR_RETURN(const Value fillers, Arithmetic("*", filler_list, missing, work));
  TUTTI_RETURN_IF_ERROR(work->ChargeValues(fillers.list()->items.size()));
  batch->insert(batch->end(), fillers.list()->items.begin(), fillers.list()->items.end());
  return absl::OkStatus();
}

absl::StatusOr<Value> Batch(const Value& self, const Call& call) {
  if (!IsIterable(self)) return Generator::Make({}, TypeError(self, "is not iterable"));
  TUTTI_ASSIGN_OR_RETURN(const auto list, Iterate(self, call.work));
  const Value& count = call.values[0];
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(list->items.size()));
  std::vector<Value> out, batch;
  const auto put = [&]() -> absl::Status {
    TUTTI_ASSIGN_OR_RETURN(Value made, Value::MakeList(std::exchange(batch, {})));
    out.push_back(std::move(made));
    return absl::OkStatus();
  };
  // As in Jinja, a batch is full when it has as many items as `count`, whatever that is.
  for (const Value& item : list->items) {
    if (Equal(Value::Int(std::ssize(batch)), count)) TUTTI_RETURN_IF_ERROR(put());
    batch.push_back(item);
  }
  absl::Status end;
  if (!batch.empty() && call.HasValue(1)) end = Fill(count, call.values[1], &batch, call.work);
  if (absl::IsResourceExhausted(end)) return end;
  if (!batch.empty() && end.ok()) TUTTI_RETURN_IF_ERROR(put());
  return Generator::Make(std::move(out), end);
}

}  // namespace

const std::vector<Builtin>& ListFilters() {
  static const auto* const table = new std::vector<Builtin>{
      {"batch", Late<Batch>, {"linecount", "fill_with"}, 1},
      {"count", LengthFilter},
      {"first", First},
      {"items", ItemsFilter},
      {"join", Join, {"d", "attribute"}},
      {"last", Last},
      {"length", LengthFilter},
      {"list", ListFilter},
      {"reverse", Reverse},
      {"slice", Late<Slice>, {"slices", "fill_with"}, 1},
      {"sum", Sum, {"attribute", "start"}},
  };
  return *table;
}

}  // namespace tutti::text::jinja
