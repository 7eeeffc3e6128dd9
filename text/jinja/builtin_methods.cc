// Methods of strings and dicts.
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

absl::Status NeedsStr(const Value& self, std::string_view method) {
  return TypeError(self, absl::StrCat("has no method '", Absl(method), "'"));
}

// The argument as a string; nothing when it is absent or None.
absl::StatusOr<std::optional<std::string_view>> OptionalStr(const Call& call, size_t i) {
  if (!call.Has(i) || call.values[i].IsNone()) return std::optional<std::string_view>();
  if (!call.values[i].IsStr()) return BadArgument(call.values[i], "str");
  return std::optional<std::string_view>(call.values[i].str());
}

absl::StatusOr<int64_t> OptionalInt(const Call& call, size_t i, int64_t absent) {
  if (!call.Has(i)) return absent;
  if (!call.values[i].IsInt()) return BadArgument(call.values[i], "int");
  return call.values[i].AsInt();
}

template <Side side>
absl::StatusOr<Value> StripMethod(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, "strip");
  TUTTI_ASSIGN_OR_RETURN(const auto chars, OptionalStr(call, 0));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  // Each character is looked for in all of `chars`.
  if (chars.has_value()) {
    TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() * call.values[0].weight()));
  }
  return Value::Str(Strip(self.text(), chars, side));
}

// startswith, endswith: of one string or any of a tuple.
template <bool at_end>
absl::StatusOr<Value> Affix(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, at_end ? "endswith" : "startswith");
  const Value& argument = call.values[0];
  const auto matches = [&](const Value& affix) {
    return affix.IsStr() &&
           (at_end ? self.str().ends_with(affix.str()) : self.str().starts_with(affix.str()));
  };
  TUTTI_RETURN_IF_ERROR(call.work->Charge(argument.weight()));
  if (argument.IsStr()) return Value::Bool(matches(argument));
  if (!argument.IsList() || !argument.list()->is_tuple) return BadArgument(argument, "str");
  for (const Value& affix : argument.list()->items) {
    if (matches(affix)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool at_end>
absl::StatusOr<Value> RemoveAffix(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, at_end ? "removesuffix" : "removeprefix");
  TUTTI_ASSIGN_OR_RETURN(const auto affix, OptionalStr(call, 0));
  if (!affix.has_value()) return BadArgument(call.values[0], "str");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  const Text& text = self.text();
  const bool found = at_end ? text.bytes().ends_with(*affix) : text.bytes().starts_with(*affix);
  const size_t length = found ? affix->size() : 0;
  return Value::Str(text.Substr(at_end ? 0 : length, text.size() - length));
}

template <bool from_right>
absl::StatusOr<Value> SplitMethod(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, "split");
  TUTTI_ASSIGN_OR_RETURN(const auto separator, OptionalStr(call, 0));
  TUTTI_ASSIGN_OR_RETURN(const int64_t max, OptionalInt(call, 1, -1));
  return Split(self.text(), separator, max, from_right, call.work);
}

absl::StatusOr<Value> ReplaceMethod(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, "replace");
  for (size_t i = 0; i < 2; ++i) {
    if (!call.values[i].IsStr()) return BadArgument(call.values[i], "str");
  }
  TUTTI_ASSIGN_OR_RETURN(const int64_t count, OptionalInt(call, 2, -1));
  TUTTI_ASSIGN_OR_RETURN(Text text, Replace(self.text(), call.values[0].str(),
                                            call.values[1].text(), count, call.work));
  return Value::Str(std::move(text));
}

template <Text (*map)(const Text&)>
absl::StatusOr<Value> CaseMethod(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, "upper");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory()));
  return Value::Str(map(self.text()));
}

absl::StatusOr<Value> JoinMethod(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, "join");
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(call.values[0], call.work));
  Text out;
  for (const Value& item : items->items) {
    if (!item.IsStr()) return BadArgument(item, "str");
    if (&item != &items->items.front()) out.Append(self.text());
    out.Append(item.text());
    TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() + item.weight()));
    if (out.size() > kTemplateOutputBytesMax) return call.work->ChargeBytes(out.size());
  }
  return Value::Str(std::move(out));
}

absl::StatusOr<Value> Items(const Value& self, const Call& call) {
  if (!self.IsDict()) return NeedsStr(self, "items");
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight()));
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(self.dict()->items.size()));
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->items) {
    TUTTI_ASSIGN_OR_RETURN(Value pair,
                           Value::MakeList({Value::Str(key), value}, /*is_tuple=*/true));
    pairs.push_back(std::move(pair));
  }
  return Value::MakeList(std::move(pairs));
}

absl::StatusOr<Value> Keys(const Value& self, const Call& call) {
  if (!self.IsDict()) return NeedsStr(self, "keys");
  TUTTI_ASSIGN_OR_RETURN(const auto keys, Iterate(self, call.work));
  return Value::MakeList(keys->items);
}

absl::StatusOr<Value> Values(const Value& self, const Call& call) {
  if (!self.IsDict()) return NeedsStr(self, "values");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(self.dict()->items.size()));
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict()->items) values.push_back(value);
  return Value::MakeList(std::move(values));
}

absl::StatusOr<Value> Get(const Value& self, const Call& call) {
  if (!self.IsDict()) return NeedsStr(self, "get");
  TUTTI_RETURN_IF_ERROR(call.work->Charge(static_cast<int64_t>(self.dict()->items.size()) / 8));
  const Value& key = call.values[0];
  const Value* found = key.IsStr() ? self.dict()->Find(key.str()) : nullptr;
  if (found != nullptr) return *found;
  return call.Has(1) ? call.values[1] : Value();
}

absl::StatusOr<Value> Find(const Value& self, const Call& call) {
  if (!self.IsStr()) return NeedsStr(self, "find");
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() * call.values[0].weight()));
  const size_t at = self.str().find(call.values[0].str());
  if (at == std::string_view::npos) return Value::Int(-1);
  return Value::Int(static_cast<int64_t>(CountCharacters(self.str().substr(0, at))));
}

const std::vector<Builtin>& Methods() {
  static const auto* const table = new std::vector<Builtin>{
      {"capitalize", CaseMethod<Capitalize>},
      {"endswith", Affix<true>, {"suffix"}, 1},
      {"find", Find, {"sub"}, 1},
      {"get", Get, {"key", "default"}, 1},
      {"items", Items},
      {"join", JoinMethod, {"iterable"}, 1},
      {"keys", Keys},
      {"lower", CaseMethod<Lower>},
      {"lstrip", StripMethod<Side::kLeft>, {"chars"}},
      {"removeprefix", RemoveAffix<false>, {"prefix"}, 1},
      {"removesuffix", RemoveAffix<true>, {"suffix"}, 1},
      {"replace", ReplaceMethod, {"old", "new", "count"}, 2},
      {"rsplit", SplitMethod<true>, {"sep", "maxsplit"}},
      {"rstrip", StripMethod<Side::kRight>, {"chars"}},
      {"split", SplitMethod<false>, {"sep", "maxsplit"}},
      {"startswith", Affix<false>, {"prefix"}, 1},
      {"strip", StripMethod<Side::kBoth>, {"chars"}},
      {"upper", CaseMethod<Upper>},
      {"values", Values},
  };
  return *table;
}

}  // namespace

const Builtin* FindMethod(std::string_view name) { return FindIn(Methods(), name); }

}  // namespace tutti::text::jinja
