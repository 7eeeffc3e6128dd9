// Functions: what is called by its name.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"

namespace tutti::text::jinja {
namespace {

absl::StatusOr<Value> RaiseException(const Value&, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Text message, ToText(call.values[0], call.work));
  return absl::InvalidArgumentError(Absl(message.bytes()));
}

absl::StatusOr<Value> MakeNamespace(const Value&, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(1 + call.values.size()));
  Namespace* ns = call.work->NewNamespace();
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (call.names[i].empty()) {
      return absl::InvalidArgumentError("namespace() takes only named arguments");
    }
    ns->attributes[call.names[i]] = call.values[i];
  }
  return Value::Of(ns);
}

absl::StatusOr<Value> MakeDictFunction(const Value&, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(1 + call.values.size()));
  std::vector<std::pair<Text, Value>> items;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (call.names[i].empty()) {
      return absl::InvalidArgumentError("dict() takes only named arguments");
    }
    items.emplace_back(Text(call.names[i], false), call.values[i]);
  }
  return Value::MakeDict(std::move(items));
}

absl::StatusOr<Value> Range(const Value&, const Call& call) {
  for (const Value& value : call.values) {
    if (!value.IsUndefined() && !value.IsInt()) return BadArgument(value, "int");
  }
  // The others may be left out; a variable that is not there may stand in any place.
  if (!call.values[0].IsInt()) return BadArgument(call.values[0], "int");
  const bool one = !call.Has(1);
  const int64_t begin = one ? 0 : call.values[0].AsInt();
  const int64_t end = one ? call.values[0].AsInt() : call.values[1].AsInt();
  const int64_t step = call.Has(2) ? call.values[2].AsInt() : 1;
  if (step == 0) return absl::InvalidArgumentError("range() step must not be zero");
  std::vector<Value> items;
  for (__int128 at = begin; step > 0 ? at < end : at > end; at += step) {
    TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(1));
    items.push_back(Value::Int(static_cast<int64_t>(at)));
  }
  return Value::MakeList(std::move(items));
}

// Of the conversion specifiers of strftime, those that templates use and that mean the same
// everywhere.
absl::StatusOr<Value> StrftimeNow(const Value&, const Call& call) {
  constexpr std::string_view kSpecifiers = "aAbBdHIjmMpSyY%";
  if (!call.work->now().has_value()) {
    return absl::InvalidArgumentError("'strftime_now' is undefined");
  }
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  const std::string_view format = call.values[0].str();
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(format.size() * 8));
  for (size_t at = format.find('%'); at != std::string_view::npos; at = format.find('%', at + 2)) {
    if (at + 1 >= format.size() || kSpecifiers.find(format[at + 1]) == std::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "strftime_now: the conversion \"", Absl(format.substr(at, 2)), "\" is not supported"));
    }
  }
  return Value::Str(Text(absl::FormatTime(Absl(format), *call.work->now(), absl::UTCTimeZone()),
                         /*from_user=*/call.values[0].text().AnyFromUser()));
}

const std::vector<Builtin>& Functions() {
  static const auto* const table = new std::vector<Builtin>{
      {.name = "dict", .function = MakeDictFunction, .parameters = {}, .more = true},
      {.name = "namespace", .function = MakeNamespace, .parameters = {}, .more = true},
      {"raise_exception", RaiseException, {"message"}, 1},
      {"range", Range, {"start", "stop", "step"}, 1},
      {"strftime_now", StrftimeNow, {"format"}, 1},
  };
  return *table;
}

}  // namespace

const Builtin* FindFunction(std::string_view name) { return FindIn(Functions(), name); }

}  // namespace tutti::text::jinja
