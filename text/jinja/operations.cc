#include "text/jinja/operations.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/builtins.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

template <size_t N>
bool Contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Where Jinja would hand out a method of Python's types instead of an item, and the template most
// likely meant the item. Answering "undefined" would be a third thing; so these are errors.
constexpr std::array<std::string_view, 11> kDictMethods = {
    "clear", "copy",    "fromkeys",   "get",    "items", "keys",
    "pop",   "popitem", "setdefault", "update", "values"};
constexpr std::array<std::string_view, 11> kListMethods = {"append", "clear",   "copy",   "count",
                                                           "extend", "index",   "insert", "pop",
                                                           "remove", "reverse", "sort"};

absl::Status IsMethod(std::string_view type, std::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("\"", Absl(name), "\" is a method of ", Absl(type),
                                                 ", which is supported only where it is called"));
}

Value NoAttribute(const Value& value, std::string_view name) {
  return Value::Missing(
      absl::StrCat("'", Absl(value.TypeName()), " object' has no attribute '", Absl(name), "'"));
}

// The characters of a string as strings.
absl::StatusOr<std::shared_ptr<const List>> Characters(const Text& text, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->ChargeStrings(CountCharacters(text.bytes())));
  std::vector<Value> items;
  for (size_t at = 0; at < text.size();) {
    const size_t length = FirstUtf8Unit(text.bytes().substr(at)).length;
    items.push_back(Value::Str(text.Substr(at, length)));
    at += length;
  }
  TUTTI_ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(items)));
  return list.list();
}

// Python's index: counted from the end when negative. Nothing when outside.
std::optional<size_t> Position(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

Value OutOfRange(const Value& value, int64_t index) {
  return Value::Missing(
      absl::StrCat("'", Absl(value.TypeName()), " object' has no element ", index));
}

absl::StatusOr<Value> ItemOfString(const Value& value, int64_t index, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(value.text().size()));
  const std::optional<size_t> position = Position(index, CountCharacters(value.str()));
  if (!position.has_value()) return OutOfRange(value, index);
  size_t at = 0;
  for (size_t i = 0; i < *position; ++i) at += FirstUtf8Unit(value.str().substr(at)).length;
  return Value::Str(value.text().Substr(at, FirstUtf8Unit(value.str().substr(at)).length));
}

absl::StatusOr<bool> Contained(const Value& needle, const Value& container, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->Charge(container.weight()));
  if (container.IsStr()) {
    if (!needle.IsStr()) {
      return TypeError(needle, "cannot be looked for in a string");
    }
    // The search compares the needle again at each place that looks alike.
    TUTTI_RETURN_IF_ERROR(work->Charge(container.weight() * (needle.weight() - 1)));
    return container.str().find(needle.str()) != std::string_view::npos;
  }
  if (container.IsDict()) {
    return needle.IsStr() && container.dict()->Find(needle.str()) != nullptr;
  }
  if (container.IsList()) {
    const std::vector<Value>& items = container.list()->items;
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& item) { return Equal(item, needle); });
  }
  if (container.IsUndefined()) return false;
  return TypeError(container, "is not iterable");
}

absl::StatusOr<int> Order(std::string_view op, const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsFloat() || b.IsFloat()) {
      return a.AsDouble() < b.AsDouble() ? -1 : a.AsDouble() > b.AsDouble() ? 1 : 0;
    }
    return a.AsInt() < b.AsInt() ? -1 : a.AsInt() > b.AsInt() ? 1 : 0;
  }
  // Bytes of UTF-8 are in the order of code points, which is Python's.
  if (a.IsStr() && b.IsStr()) return a.str().compare(b.str());
  if (a.IsUndefined()) return TypeError(a, "");
  if (b.IsUndefined()) return TypeError(b, "");
  return absl::InvalidArgumentError(absl::StrCat("'", Absl(op), "' not supported between '",
                                                 Absl(a.TypeName()), "' and '", Absl(b.TypeName()),
                                                 "'"));
}

}  // namespace

absl::Status TypeError(const Value& value, std::string_view problem) {
  if (value.IsUndefined()) return absl::InvalidArgumentError(value.undefined());
  return absl::InvalidArgumentError(
      absl::StrCat("'", Absl(value.TypeName()), "' object ", Absl(problem)));
}

absl::Status BadArgument(const Value& value, std::string_view wanted) {
  return TypeError(value, absl::StrCat("given where a ", Absl(wanted), " is needed"));
}

absl::StatusOr<std::shared_ptr<const List>> Iterate(const Value& value, Work* work) {
  if (value.IsList()) {
    TUTTI_RETURN_IF_ERROR(work->Charge(static_cast<int64_t>(value.list()->items.size())));
    return value.list();
  }
  if (value.IsStr()) return Characters(value.text(), work);
  if (value.IsDict()) {
    std::vector<Value> keys;
    TUTTI_RETURN_IF_ERROR(work->Charge(value.weight()));
    TUTTI_RETURN_IF_ERROR(work->ChargeStrings(value.dict()->items.size()));
    for (const auto& item : value.dict()->items) keys.push_back(Value::Str(item.first));
    TUTTI_ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(keys)));
    return list.list();
  }
  if (value.IsUndefined()) return std::make_shared<const List>();
  return TypeError(value, "is not iterable");
}

absl::StatusOr<Value> GetAttribute(const Value& value, std::string_view name, Work* work) {
  if (value.IsUndefined()) return TypeError(value, "");
  if (value.IsDict()) {
    if (Contains(kDictMethods, name)) return IsMethod("dict", name);
    TUTTI_RETURN_IF_ERROR(work->Charge(static_cast<int64_t>(value.dict()->items.size()) / 8));
    const Value* found = value.dict()->Find(name);
    return found == nullptr ? NoAttribute(value, name) : *found;
  }
  if (const Namespace* ns = value.AsNamespace(); ns != nullptr) {
    const auto found = ns->attributes.find(std::string(name));
    return found == ns->attributes.end() ? NoAttribute(value, name) : found->second;
  }
  if (const Loop* loop = value.AsLoop(); loop != nullptr) {
    const std::vector<Value>& items = loop->items->items;
    const auto index0 = static_cast<int64_t>(loop->index0);
    const auto length = static_cast<int64_t>(items.size());
    if (name == "index0") return Value::Int(index0);
    if (name == "index") return Value::Int(index0 + 1);
    if (name == "revindex") return Value::Int(length - index0);
    if (name == "revindex0") return Value::Int(length - index0 - 1);
    if (name == "first") return Value::Bool(index0 == 0);
    if (name == "last") return Value::Bool(index0 + 1 == length);
    if (name == "length") return Value::Int(length);
    if (name == "previtem" && index0 > 0) return items[index0 - 1];
    if (name == "nextitem" && index0 + 1 < length) return items[index0 + 1];
    return NoAttribute(value, name);
  }
  if (value.IsList() && Contains(kListMethods, name)) return IsMethod("list", name);
  if (value.IsStr() && FindMethod(name) != nullptr) return IsMethod("str", name);
  return NoAttribute(value, name);
}

absl::StatusOr<Value> GetItem(const Value& value, const Value& key, Work* work) {
  if (value.IsUndefined()) return TypeError(value, "");
  if (key.IsStr()) {
    if (value.IsDict() && value.dict()->Find(key.str()) != nullptr) {
      TUTTI_RETURN_IF_ERROR(work->Charge(static_cast<int64_t>(value.dict()->items.size()) / 8));
      return *value.dict()->Find(key.str());
    }
    return GetAttribute(value, key.str(), work);  // as Jinja does when there is no such item
  }
  if (key.IsInt() || key.IsBool()) {
    if (value.IsStr()) return ItemOfString(value, key.AsInt(), work);
    if (value.IsList()) {
      const auto position = Position(key.AsInt(), value.list()->items.size());
      return position.has_value() ? value.list()->items[*position] : OutOfRange(value, key.AsInt());
    }
    return OutOfRange(value, key.AsInt());
  }
  if (key.IsUndefined()) return TypeError(key, "");
  return NoAttribute(value, key.TypeName());
}

absl::StatusOr<bool> Compare(std::string_view op, const Value& a, const Value& b, Work* work) {
  if (op == "in" || op == "not in") {
    TUTTI_ASSIGN_OR_RETURN(const bool contained, Contained(a, b, work));
    return contained == (op == "in");
  }
  TUTTI_RETURN_IF_ERROR(work->Charge(std::min(a.weight(), b.weight())));
  if (op == "==") return Equal(a, b);
  if (op == "!=") return !Equal(a, b);
  TUTTI_ASSIGN_OR_RETURN(const int order, Order(op, a, b));
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

}  // namespace tutti::text::jinja
