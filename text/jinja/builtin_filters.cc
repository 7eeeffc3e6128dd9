// Filters: what stands behind `|`.
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
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

constexpr int64_t kIndentMax = 16;

absl::StatusOr<Text> StrArgument(const Call& call, size_t i) {
  if (!call.Has(i)) return Text();
  return ToText(call.values[i], call.work);
}

absl::StatusOr<Value> ToJsonFilter(const Value& self, const Call& call) {
  enum { kEnsureAscii, kIndent, kSeparators, kSortKeys };
  JsonStyle style;
  style.ensure_ascii = call.values[kEnsureAscii].Truth();
  style.sort_keys = call.values[kSortKeys].Truth();
  if (call.Has(kIndent) && !call.values[kIndent].IsNone()) {
    const Value& indent = call.values[kIndent];
    if (!indent.IsInt() || indent.AsInt() < 0 || indent.AsInt() > kIndentMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("tojson: indent is not an integer from 0 to ", kIndentMax));
    }
    style.indent = static_cast<int>(indent.AsInt());
  }
  if (call.Has(kSeparators) && !call.values[kSeparators].IsNone()) {
    const Value& pair = call.values[kSeparators];
    if (!pair.IsList() || pair.list()->items.size() != 2 || !pair.list()->items[0].IsStr() ||
        !pair.list()->items[1].IsStr()) {
      return absl::InvalidArgumentError("tojson: separators are not two strings");
    }
    style.item_separator = pair.list()->items[0].str();
    style.key_separator = pair.list()->items[1].str();
  }
  TUTTI_ASSIGN_OR_RETURN(Text text, ToJson(self, style, call.work));
  return Value::Str(std::move(text));
}

absl::StatusOr<Value> Trim(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(self, call.work));
  if (!call.Has(0) || call.values[0].IsNone()) {
    return Value::Str(Strip(text, std::nullopt, Side::kBoth));
  }
  if (!call.values[0].IsStr()) return TypeError(call.values[0], "given where a str is needed");
  // Each character is looked for in all of them.
  TUTTI_RETURN_IF_ERROR(call.work->Charge(self.weight() * call.values[0].weight()));
  return Value::Str(Strip(text, call.values[0].str(), Side::kBoth));
}

absl::StatusOr<Value> Length(const Value& self, const Call& call) {
  if (self.IsUndefined()) return Value::Int(0);
  if (self.IsList()) return Value::Int(static_cast<int64_t>(self.list()->items.size()));
  if (self.IsDict()) return Value::Int(static_cast<int64_t>(self.dict()->items.size()));
  if (!self.IsStr()) return TypeError(self, "has no length");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().size()));
  return Value::Int(static_cast<int64_t>(CountCharacters(self.str())));
}

absl::StatusOr<Value> Default(const Value& self, const Call& call) {
  const bool replace = self.IsUndefined() || (call.values[1].Truth() && !self.Truth());
  if (!replace) return self;
  return call.Has(0) ? call.values[0] : Value::Literal("");
}

template <Text (*map)(const Text&)>
absl::StatusOr<Value> CaseFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(self, call.work));
  return Value::Str(map(text));
}

absl::StatusOr<Value> StringFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(Text text, ToText(self, call.work));
  return Value::Str(std::move(text));
}

absl::StatusOr<Value> Identity(const Value& self, const Call&) { return self; }

absl::StatusOr<Value> ListFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  return Value::MakeList(items->items);
}

template <bool last>
absl::StatusOr<Value> End(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  if (items->items.empty()) {
    return Value::Missing(last ? "No last item, sequence was empty."
                               : "No first item, sequence was empty.");
  }
  return last ? items->items.back() : items->items.front();
}

absl::StatusOr<Value> ReverseFilter(const Value& self, const Call& call) {
  if (self.IsStr()) {
    TUTTI_ASSIGN_OR_RETURN(Text text,
                           SliceText(self.text(), std::nullopt, std::nullopt, -1, call.work));
    return Value::Str(std::move(text));
  }
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  return Value::MakeList({items->items.rbegin(), items->items.rend()});
}

absl::StatusOr<Value> ReplaceFilter(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const Text text, ToText(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const Text old, StrArgument(call, 0));
  TUTTI_ASSIGN_OR_RETURN(const Text by, StrArgument(call, 1));
  const bool limited = call.Has(2) && call.values[2].IsInt();
  TUTTI_ASSIGN_OR_RETURN(Text replaced, Replace(text, old.bytes(), by,
                                                limited ? call.values[2].AsInt() : -1, call.work));
  return Value::Str(std::move(replaced));
}

absl::StatusOr<Value> Abs(const Value& self, const Call&) {
  if (self.IsFloat()) return Value::Float(std::fabs(self.AsDouble()), self.number_from_user());
  if (!self.IsNumber()) return TypeError(self, "has no absolute value");
  if (self.AsInt() == std::numeric_limits<int64_t>::min()) {
    return absl::InvalidArgumentError("integer overflow");
  }
  return Value::Int(std::abs(self.AsInt()), self.number_from_user());
}

// int(value), else the argument; strings as Python reads them, but for underscores and other
// digits.
absl::StatusOr<Value> IntFilter(const Value& self, const Call& call) {
  const bool from_user = self.IsStr() ? self.text().AnyFromUser() : self.number_from_user();
  if (self.IsInt() || self.IsBool()) return Value::Int(self.AsInt(), from_user);
  double number = self.IsFloat() ? self.AsDouble() : std::nan("");
  if (self.IsStr()) {
    int64_t integer = 0;
    if (absl::SimpleAtoi(Absl(self.str()), &integer)) return Value::Int(integer, from_user);
    if (!absl::SimpleAtod(Absl(self.str()), &number)) number = std::nan("");
  }
  constexpr double kLimit = 9.2e18;
  if (std::fabs(number) < kLimit) return Value::Int(static_cast<int64_t>(number), from_user);
  return call.Has(0) ? call.values[0] : Value::Int(0);
}

absl::StatusOr<Value> FloatFilter(const Value& self, const Call& call) {
  if (self.IsNumber()) return Value::Float(self.AsDouble(), self.number_from_user());
  double number = 0;
  if (self.IsStr() && absl::SimpleAtod(Absl(self.str()), &number)) {
    return Value::Float(number, self.text().AnyFromUser());
  }
  return call.Has(0) ? call.values[0] : Value::Float(0);
}

absl::StatusOr<Value> ItemsFilter(const Value& self, const Call& call) {
  if (self.IsUndefined()) return Value::MakeList({});
  if (!self.IsDict()) return TypeError(self, "is not a mapping");
  return FindMethod("items")->function(self, call);
}

// value.a.b for "a.b"; a part of digits is an index.
absl::StatusOr<Value> Dotted(Value value, std::string_view path, Work* work) {
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    int64_t index = 0;
    const bool is_index = absl::SimpleAtoi(Absl(part), &index);
    const Value key = is_index ? Value::Int(index) : Value::Literal(std::string(part));
    TUTTI_ASSIGN_OR_RETURN(value, GetItem(value, key, work));
    if (dot == std::string_view::npos) return value;
    path.remove_prefix(dot + 1);
  }
}

absl::StatusOr<Value> Join(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  TUTTI_ASSIGN_OR_RETURN(const Text separator, StrArgument(call, 0));
  Text out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    Value item = items->items[i];
    if (call.Has(1) && !call.values[1].IsNone()) {
      if (!call.values[1].IsStr()) return TypeError(call.values[1], "is not an attribute");
      TUTTI_ASSIGN_OR_RETURN(item, Dotted(item, call.values[1].str(), call.work));
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

// map("filter", arguments...) or map(attribute="a.b", default=...).
absl::StatusOr<Value> Map(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  const Builtin* filter = nullptr;
  std::optional<std::string_view> attribute;
  Value fallback = Value::Missing("");
  Call inner;
  inner.work = call.work;
  for (size_t i = 0; i < call.values.size(); ++i) {
    const Value& value = call.values[i];
    if (call.names[i] == "attribute" && value.IsStr()) {
      attribute = value.str();
    } else if (call.names[i] == "default") {
      fallback = value;
    } else if (i == 0 && value.IsStr()) {
      filter = FindFilter(value.str());
    } else {
      inner.values.push_back(value);
    }
  }
  if ((filter == nullptr) == !attribute.has_value()) {
    return absl::InvalidArgumentError("map needs a filter or an attribute");
  }
  if (filter != nullptr) {
    if (inner.values.size() > filter->parameters.size() || inner.values.size() < filter->required) {
      return absl::InvalidArgumentError(absl::StrCat("map: filter \"", Absl(filter->name),
                                                     "\" called with ", inner.values.size(),
                                                     " arguments"));
    }
    inner.parameters = filter->parameters.size();
    inner.values.resize(inner.parameters, Value::Missing(""));
  }
  std::vector<Value> out;
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(items->items.size()));
  for (const Value& item : items->items) {
    absl::StatusOr<Value> mapped =
        filter != nullptr ? filter->function(item, inner) : Dotted(item, *attribute, call.work);
    if (!mapped.ok()) return mapped.status();
    out.push_back(mapped->IsUndefined() && !fallback.IsUndefined() ? fallback : *std::move(mapped));
  }
  return Value::MakeList(std::move(out));
}

// select, reject, selectattr, rejectattr: the items for which a test, or else their truth, is
// `wanted`.
template <bool wanted, bool of_attribute>
absl::StatusOr<Value> Select(const Value& self, const Call& call) {
  TUTTI_ASSIGN_OR_RETURN(const auto items, Iterate(self, call.work));
  const std::span<const Value> arguments(call.values);
  const size_t test_at = of_attribute ? 1 : 0;
  const Builtin* test = arguments.size() > test_at ? FindTest(arguments[test_at].str()) : nullptr;
  std::vector<Value> out;
  TUTTI_RETURN_IF_ERROR(call.work->ChargeValues(items->items.size()));
  for (const Value& item : items->items) {
    Value subject = item;
    if (of_attribute) {
      if (!arguments[0].IsStr()) return TypeError(arguments[0], "is not an attribute");
      TUTTI_ASSIGN_OR_RETURN(subject, Dotted(item, arguments[0].str(), call.work));
    }
    bool holds = subject.Truth();
    if (test != nullptr) {
      TUTTI_ASSIGN_OR_RETURN(holds,
                             RunTest(*test, subject, arguments.subspan(test_at + 1), call.work));
    }
    if (holds == wanted) out.push_back(item);
  }
  return Value::MakeList(std::move(out));
}

Builtin SelectFilter(std::string_view name, BuiltinFunction function, bool of_attribute) {
  Builtin filter{.name = name, .function = function, .parameters = {}, .more = true};
  filter.more_names = {""};  // no named ones
  filter.names_builtin = 't';
  filter.names_builtin_at = of_attribute ? 1 : 0;
  if (of_attribute) {
    filter.parameters = {"attribute"};
    filter.required = 1;
  }
  return filter;
}

const std::vector<Builtin>& Filters() {
  static const auto* const table = new std::vector<Builtin>{
      {"abs", Abs},
      {"capitalize", CaseFilter<Capitalize>},
      {"count", Length},
      {"d", Default, {"default_value", "boolean"}},
      {"default", Default, {"default_value", "boolean"}},
      {"first", End<false>},
      {"float", FloatFilter, {"default"}},
      {"int", IntFilter, {"default"}},
      {"items", ItemsFilter},
      {"join", Join, {"d", "attribute"}},
      {"last", End<true>},
      {"length", Length},
      {"list", ListFilter},
      {"lower", CaseFilter<Lower>},
      {.name = "map",
       .function = Map,
       .parameters = {},
       .more = true,
       .more_names = {"attribute", "default"},
       .names_builtin = 'f'},
      SelectFilter("reject", Select<false, false>, false),
      SelectFilter("rejectattr", Select<false, true>, true),
      {"replace", ReplaceFilter, {"old", "new", "count"}, 2},
      {"reverse", ReverseFilter},
      {"safe", Identity},
      SelectFilter("select", Select<true, false>, false),
      SelectFilter("selectattr", Select<true, true>, true),
      {"string", StringFilter},
      {"tojson", ToJsonFilter, {"ensure_ascii", "indent", "separators", "sort_keys"}},
      {"trim", Trim, {"chars"}},
      {"upper", CaseFilter<Upper>},
  };
  return *table;
}

}  // namespace

const Builtin* FindFilter(std::string_view name) { return FindIn(Filters(), name); }

}  // namespace tutti::text::jinja
