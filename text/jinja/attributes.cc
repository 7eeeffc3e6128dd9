// value.name and value[key].
#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"
#include "text/absl_text.h"
#include "text/jinja/builtins.h"
#include "text/jinja/object.h"
#include "text/jinja/operations.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

using Found = std::optional<Value>;

// The methods that the sandbox of transformers denies: methods that change what they belong to.
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault",
                                                          "update"};
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};

template <size_t N>
bool IsAmong(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value Unsafe(const Value& value, std::string_view name) {
  return Value::Missing(absl::StrCat("access to attribute '", Absl(name), "' of '",
                                     Absl(value.TypeName()), "' object is unsafe."));
}

Value NoAttribute(const Value& value, std::string_view name) {
  return Value::Missing(
      absl::StrCat("'", Absl(value.TypeName()), " object' has no attribute '", Absl(name), "'"));
}

Value OutOfRange(const Value& value, const Value& key) {
  return Value::Missing(absl::StrCat("'", Absl(value.TypeName()), " object' has no element",
                                     key.IsInt() ? absl::StrCat(" ", key.AsInt()) : ""));
}

absl::StatusOr<Found> Method(const Value& value, const Builtin* method) {
  if (method == nullptr) return Found();
  TUTTI_ASSIGN_OR_RETURN(Value bound, BoundMethod::Make(value, method));
  return Found(std::move(bound));
}

Found NumberAttribute(const Value& value, std::string_view name) {
  if (name == "real" || (name == "numerator" && value.IsInteger())) {
    return value.IsBool() ? Value::Int(value.AsInt()) : value;
  }
  if (name == "imag") {
    return value.IsFloat() ? Value::Float(0) : Value::Int(0);
  }
  if (name == "denominator" && value.IsInteger()) return Value::Int(1);
  return std::nullopt;
}

// An attribute or method; nothing when there is none.
absl::StatusOr<Found> OwnAttribute(const Value& value, std::string_view name, Work* work) {
  if (value.IsStr()) return Method(value, FindStrMethod(name));
  if (value.IsDict()) {
    if (IsAmong(kDictChanges, name)) return Found(Unsafe(value, name));
    return Method(value, FindDictMethod(name));
  }
  if (value.IsList()) {
    const List& list = *value.list();
    if (list.is_view()) return Found();
    if (list.kind == List::kGroup && name == "grouper") return Found(list.items[0]);
    if (list.kind == List::kGroup && name == "list") return Found(list.items[1]);
    if (list.kind == List::kList && IsAmong(kListChanges, name)) {
      return Found(Unsafe(value, name));
    }
    if (name == "copy" && list.kind != List::kList) return Found();
    return Method(value, FindListMethod(name));
  }
  if (value.IsNumber()) return NumberAttribute(value, name);
  if (const Namespace* ns = value.AsNamespace(); ns != nullptr) {
    const auto found = ns->attributes.find(std::string(name));
    return found == ns->attributes.end() ? Found() : Found(found->second);
  }
  if (value.AsObject() != nullptr) return value.AsObject()->Attribute(name, work);
  return Found();
}

// Python's index: counted from the end when negative. Nothing when outside.
std::optional<size_t> Position(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

absl::StatusOr<Found> ItemOfString(const Value& value, int64_t index, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(value.text().size()));
  const std::optional<size_t> position = Position(index, CountCharacters(value.str()));
  if (!position.has_value()) return Found();
  size_t at = 0;
  for (size_t i = 0; i < *position; ++i) at += FirstUtf8Unit(value.str().substr(at)).length;
  return Found(Value::Str(value.text().Substr(at, FirstUtf8Unit(value.str().substr(at)).length),
                          value.IsMarkup()));
}

absl::StatusOr<Found> Item(const Value& value, const Value& key, Work* work) {
  if (value.IsDict()) {
    TUTTI_RETURN_IF_ERROR(work->Charge(static_cast<int64_t>(value.dict()->items.size()) / 8));
    const Value* found = key.IsStr() ? value.dict()->Find(key.str()) : value.dict()->Find(key);
    return found == nullptr ? Found() : Found(*found);
  }
  if (!key.IsInt() && !key.IsBool()) return Found();
  if (value.IsStr()) return ItemOfString(value, key.AsInt(), work);
  if (value.IsList() && !value.list()->is_view()) {
    const auto position = Position(key.AsInt(), value.list()->items.size());
    if (position.has_value()) return Found(value.list()->items[*position]);
  }
  return Found();
}

}  // namespace

absl::StatusOr<Value> GetOnlyAttribute(const Value& value, std::string_view name, Work* work) {
  TUTTI_ASSIGN_OR_RETURN(Found found, OwnAttribute(value, name, work));
  return found.has_value() ? *std::move(found) : NoAttribute(value, name);
}

absl::StatusOr<Value> GetAttribute(const Value& value, std::string_view name, Work* work) {
  if (value.IsUndefined()) return TypeError(value, "");
  TUTTI_ASSIGN_OR_RETURN(Found found, OwnAttribute(value, name, work));
  if (!found.has_value() && value.IsDict()) {
    TUTTI_RETURN_IF_ERROR(work->Charge(static_cast<int64_t>(value.dict()->items.size()) / 8));
    const Value* item = value.dict()->Find(name);
    if (item != nullptr) return *item;
  }
  return found.has_value() ? *std::move(found) : NoAttribute(value, name);
}

absl::StatusOr<Value> GetItem(const Value& value, const Value& key, Work* work) {
  if (value.IsUndefined()) return TypeError(value, "");
  TUTTI_ASSIGN_OR_RETURN(Found found, Item(value, key, work));
  if (!found.has_value() && key.IsStr()) {
    TUTTI_ASSIGN_OR_RETURN(found, OwnAttribute(value, key.str(), work));
    if (!found.has_value()) return NoAttribute(value, key.str());
  }
  return found.has_value() ? *std::move(found) : OutOfRange(value, key);
}

}  // namespace tutti::text::jinja
