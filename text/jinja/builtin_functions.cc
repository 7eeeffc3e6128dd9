// Functions: names that are called.
#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/object.h"
#include "text/jinja/operations.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

absl::StatusOr<Value> RaiseException(const Value&, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Text message, ToText(call.values[0], call.work));
  return absl::InvalidArgumentError(Absl(message.bytes()));
}

// dict(...): the pairs of at most one mapping or sequence of pairs, then the named ones.
absl::StatusOr<std::vector<std::pair<Value, Value>>> PairsOf(const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(1 + call.values.size()));
  std::vector<std::pair<Value, Value>> pairs;
  const auto put = [&](const Value& key, const Value& value) -> absl::Status {
    TUTTI_RETURN_IF_ERROR(CheckHashable(key, call.work));
    TUTTI_RETURN_IF_ERROR(call.work->Charge(1 + static_cast<int64_t>(pairs.size()) / 8));
    const auto same = std::find_if(pairs.begin(), pairs.end(),
                                   [&](const auto& pair) { return Equal(pair.first, key); });
    if (same == pairs.end()) {
      pairs.emplace_back(key, value);
    } else {
      same->second = value;
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < call.values.size(); ++i) {
    const Value& value = call.values[i];
    if (!call.names[i].empty()) {
      TUTTI_RETURN_IF_ERROR(put(Value::Literal(call.names[i]), value));
      continue;
    }
    if (i > 0) return absl::InvalidArgumentError("dict expected at most 1 argument");
    if (value.IsUndefined()) return TypeError(value, "");
    if (value.IsDict()) {
      for (const auto& [key, item] : value.dict()->items) TUTTI_RETURN_IF_ERROR(put(key, item));
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(value, call.work));
    for (const Value& item : items->items) {
      TUTTI_ASSIGN_OR_RETURN(const auto pair, Iterate(item, call.work));
      if (pair->items.size() != 2) {
        return absl::InvalidArgumentError("dictionary update sequence element has no length 2");
      }
      TUTTI_RETURN_IF_ERROR(put(pair->items[0], pair->items[1]));
    }
  }
  return pairs;
}

absl::StatusOr<Value> MakeNamespace(const Value&, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto pairs, PairsOf(call));
  Namespace* ns = call.work->NewNamespace();
  for (const auto& [key, value] : pairs) {
    if (!key.IsStr() || key.str().starts_with('_')) {
      return absl::InvalidArgumentError("namespace(): names are strings that do not begin with _");
    }
    ns->attributes[std::string(key.str())] = value;
  }
  return Value::Of(ns);
}

absl::StatusOr<Value> MakeDictFunction(const Value&, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(auto pairs, PairsOf(call));
  return Value::MakeDict(std::move(pairs));
}

absl::StatusOr<Value> DictFromKeys(const Value&, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto keys, Iterate(call.values[0], call.work));
  std::vector<std::pair<Value, Value>> pairs;
  for (const Value& key : keys->items) {
    TUTTI_RETURN_IF_ERROR(CheckHashable(key, call.work));
    TUTTI_RETURN_IF_ERROR(call.work->Charge(1 + static_cast<int64_t>(pairs.size()) / 8));
    const bool known = std::any_of(pairs.begin(), pairs.end(),
                                   [&](const auto& pair) { return Equal(pair.first, key); });
    if (!known) pairs.emplace_back(key, call.Has(1) ? call.values[1] : Value());
  }
  return Value::MakeDict(std::move(pairs));
}

absl::StatusOr<Value> Range(const Value&, const Call& call) {
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (call.Has(i) && !call.values[i].IsInt() && !call.values[i].IsBool()) {
      return BadArgument(call.values[i], "int");
    }
  }
  const bool one = !call.Has(1);
  const int64_t begin = one ? 0 : call.values[0].AsInt();
  const int64_t end = one ? call.values[0].AsInt() : call.values[1].AsInt();
  const int64_t step = call.Has(2) ? call.values[2].AsInt() : 1;
  if (step == 0) return absl::InvalidArgumentError("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (__int128 at = begin; step > 0 ? at < end : at > end; at += step) {
    TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(1));
    if (static_cast<int64_t>(items.size()) >= kTemplateRangeItemsMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("Range too big. The sandbox blocks ranges larger than MAX_RANGE (",
                       kTemplateRangeItemsMax, ")."));
    }
    items.push_back(Value::Int(static_cast<int64_t>(at)));
  }
  return MakeRange(std::move(items), begin, end, step);
}

// The conversions of strftime are those of the C library, as in Python; %f, %z and %Z as for a time
// without a zone.
absl::StatusOr<Value> StrftimeNow(const Value&, const Call& call) {
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  const Text& given = call.values[0].text();
  const absl::Time now = *call.work->now();
  std::string format;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string_view two = given.bytes().substr(i, 2);
    if (two == "%f") {
      const int64_t micros =
          absl::ToInt64Microseconds(now - absl::FromUnixSeconds(absl::ToUnixSeconds(now)));
      absl::StrAppendFormat(&format, "%06d", micros);
    } else if (two != "%z" && two != "%Z") {
      format += two[0] == '%' ? two : two.substr(0, 1);
    }
    if (two[0] == '%') ++i;
  }
  // The longest conversion, %c, takes about 30 bytes.
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(64 + format.size() * 32));
  std::string text(64 + format.size() * 32, '\0');
  const struct tm time = absl::ToTM(now, absl::UTCTimeZone());
  // One character more tells an empty result from one that did not fit.
  const size_t length = std::strftime(text.data(), text.size(), (format + " ").c_str(), &time);
  if (length == 0) return absl::InvalidArgumentError("strftime_now: the result is too long");
  text.resize(length - 1);
  return Value::Str(Text(std::move(text), /*from_user=*/given.AnyFromUser()));
}

absl::StatusOr<Value> MakeCycler(const Value&, const Call& call) {
  if (call.values.empty()) {
    return absl::InvalidArgumentError("at least one item has to be provided");
  }
  return Cycler::Make(call.values);
}

absl::StatusOr<Value> MakeJoiner(const Value&, const Call& call) {
  TUTTI_RETURN_IF_ERROR(call.work->ChargeStrings(1));
  return Value::Of(std::make_shared<Joiner>(call.Has(0) ? call.values[0] : Value::Literal(", ")));
}

const std::vector<Builtin>& Functions() {
  static const auto* const table = new std::vector<Builtin>{
      {.name = "cycler", .function = MakeCycler, .more = true},
      {.name = "dict", .function = MakeDictFunction, .more = true},
      {"dict.fromkeys", DictFromKeys, {"iterable", "value"}, 1, false, kPositional},
      {"joiner", MakeJoiner, {"sep"}},
      {.name = "namespace", .function = MakeNamespace, .more = true},
      {"raise_exception", RaiseException, {"message"}, 1},
      {"range", Range, {"start", "stop", "step"}, 1, false, kPositional},
      {"strftime_now", StrftimeNow, {"format"}, 1},
  };
  return *table;
}

}  // namespace

const Builtin* FindFunction(std::string_view name) { return FindIn(Functions(), name); }

}  // namespace tutti::text::jinja
