#include "text/jinja/value.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

using nlohmann::ordered_json;

absl::Status TooDeep() {
  return absl::InvalidArgumentError(
      absl::StrCat("a list or dict nests deeper than ", kTextJsonDepthMax));
}

absl::Status Bad(std::string_view path, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(path), ": ", Absl(why)));
}

absl::StatusOr<Text> TextFromJson(const std::string& text, std::string_view path, bool from_user) {
  if (const auto invalid = FindInvalidUtf8(text); invalid.has_value()) {
    return Bad(path, absl::StrCat("not valid UTF-8 at byte ", *invalid));
  }
  return Text(text, from_user);
}

absl::StatusOr<Value> Convert(const ordered_json& json, const std::string& path, bool from_user,
                              int depth);

absl::StatusOr<Value> ConvertArray(const ordered_json& json, const std::string& path,
                                   bool from_user, int depth) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Value item,
                           Convert(json[i], absl::StrCat(path, "[", i, "]"), from_user, depth + 1));
    items.push_back(std::move(item));
  }
  return Value::MakeList(std::move(items));
}

absl::StatusOr<Value> ConvertObject(const ordered_json& json, const std::string& path,
                                    bool from_user, int depth) {
  std::vector<std::pair<Text, Value>> items;
  items.reserve(json.size());
  for (auto member = json.begin(); member != json.end(); ++member) {
    TUTTI_ASSIGN_OR_RETURN(Text key, TextFromJson(member.key(), path, from_user));
    TUTTI_ASSIGN_OR_RETURN(
        Value value,
        Convert(member.value(), absl::StrCat(path, ".", member.key()), from_user, depth + 1));
    items.emplace_back(std::move(key), std::move(value));
  }
  return Value::MakeDict(std::move(items));
}

absl::StatusOr<Value> Convert(const ordered_json& json, const std::string& path, bool from_user,
                              int depth) {
  if (depth > kTextJsonDepthMax) return Annotate(TooDeep(), path);
  switch (json.type()) {
    case ordered_json::value_t::null:
      return Value();
    case ordered_json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return Value::Int(json.get<int64_t>(), from_user);
    case ordered_json::value_t::number_unsigned: {
      const auto value = json.get<uint64_t>();
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Bad(path, absl::StrCat("integer ", value, " has more than 63 bits"));
      }
      return Value::Int(static_cast<int64_t>(value), from_user);
    }
    case ordered_json::value_t::number_float:
      return Value::Float(json.get<double>(), from_user);
    case ordered_json::value_t::string: {
      TUTTI_ASSIGN_OR_RETURN(Text text,
                             TextFromJson(json.get_ref<const std::string&>(), path, from_user));
      return Value::Str(std::move(text));
    }
    case ordered_json::value_t::array:
      return ConvertArray(json, path, from_user, depth);
    case ordered_json::value_t::object:
      return ConvertObject(json, path, from_user, depth);
    default:
      return Bad(path, "not a JSON value");
  }
}

// Takes one more member of a list or dict into its depth and weight.
absl::Status Grow(const Value& member, int* depth, int64_t* weight) {
  *depth = std::max(*depth, member.depth() + 1);
  if (*depth > kTextJsonDepthMax) return TooDeep();
  *weight += member.weight();
  if (*weight > kTemplateStepsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a list or dict takes more than ", kTemplateStepsMax, " steps to walk"));
  }
  return absl::OkStatus();
}

bool EqualLists(const List& a, const List& b) {
  return a.is_tuple == b.is_tuple &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), Equal);
}

bool EqualDicts(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
    const Value* other = b.Find(item.first.bytes());
    return other != nullptr && Equal(item.second, *other);
  });
}

}  // namespace

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name.bytes() == key) return &value;
  }
  return nullptr;
}

Value Value::Missing(std::string what) {
  return Value(std::make_shared<const jinja::Undefined>(jinja::Undefined{std::move(what)}), false);
}

absl::StatusOr<Value> Value::MakeList(std::vector<Value> items, bool is_tuple) {
  auto list = std::make_shared<jinja::List>();
  for (const Value& item : items) TUTTI_RETURN_IF_ERROR(Grow(item, &list->depth, &list->weight));
  list->items = std::move(items);
  list->is_tuple = is_tuple;
  return Value(std::shared_ptr<const jinja::List>(std::move(list)), false);
}

absl::StatusOr<Value> Value::MakeDict(std::vector<std::pair<Text, Value>> items) {
  auto dict = std::make_shared<jinja::Dict>();
  for (const auto& [key, value] : items) {
    TUTTI_RETURN_IF_ERROR(Grow(value, &dict->depth, &dict->weight));
    dict->weight += 1 + static_cast<int64_t>(key.size()) / kTemplateBytesPerStep;
  }
  dict->items = std::move(items);
  return Value(std::shared_ptr<const jinja::Dict>(std::move(dict)), false);
}

absl::StatusOr<Value> Value::FromJson(const ordered_json& json, std::string_view path,
                                      bool from_user) {
  return Convert(json, std::string(path), from_user, 1);
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

std::string_view Value::TypeName() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "NoneType";
  if (IsBool()) return "bool";
  if (IsInt()) return "int";
  if (IsFloat()) return "float";
  if (IsStr()) return "str";
  if (IsList()) return list()->is_tuple ? "tuple" : "list";
  if (IsDict()) return "dict";
  if (AsNamespace() != nullptr) return "namespace";
  return AsLoop() != nullptr ? "loop" : "macro";
}

int Value::depth() const {
  if (IsList()) return list()->depth;
  if (IsDict()) return dict()->depth;
  return 0;
}

int64_t Value::weight() const {
  if (IsStr()) return 1 + static_cast<int64_t>(text().memory()) / kTemplateBytesPerStep;
  if (IsList()) return list()->weight;
  if (IsDict()) return dict()->weight;
  return 1;
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsFloat() || b.IsFloat()) return a.AsDouble() == b.AsDouble();
    return a.AsInt() == b.AsInt();
  }
  if (a.IsStr() && b.IsStr()) return a.str() == b.str();
  if (a.IsList() && b.IsList()) return EqualLists(*a.list(), *b.list());
  if (a.IsDict() && b.IsDict()) return EqualDicts(*a.dict(), *b.dict());
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsUndefined() || b.IsUndefined()) return a.IsUndefined() && b.IsUndefined();
  return (a.AsNamespace() != nullptr && a.AsNamespace() == b.AsNamespace()) ||
         (a.AsLoop() != nullptr && a.AsLoop() == b.AsLoop()) ||
         (a.AsMacro() != nullptr && a.AsMacro() == b.AsMacro());
}

}  // namespace tutti::text::jinja
