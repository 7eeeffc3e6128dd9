#include "text/jinja/operations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"
#include "text/absl_text.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/object.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

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

// The rest of a generator.
absl::StatusOr<std::shared_ptr<const List>> Drain(Generator* generator, Work* work) {
  std::vector<Value> items;
  while (true) {
    TUTTI_RETURN_IF_ERROR(work->ChargeValues(1));
    TUTTI_ASSIGN_OR_RETURN(auto item, generator->Next());
    if (!item.has_value()) break;
    items.push_back(*std::move(item));
  }
  TUTTI_ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(items)));
  return list.list();
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
    TUTTI_RETURN_IF_ERROR(CheckHashable(needle, work));
    return container.dict()->Find(needle) != nullptr;
  }
  if (container.IsList()) {
    const std::vector<Value>& items = container.list()->items;
    // Looked for as a key, of dict.items() its first part.
    if (container.list()->kind == List::kKeys) TUTTI_RETURN_IF_ERROR(CheckHashable(needle, work));
    if (container.list()->kind == List::kItems && needle.IsList() && needle.list()->is_tuple() &&
        needle.list()->items.size() == 2) {
      TUTTI_RETURN_IF_ERROR(CheckHashable(needle.list()->items[0], work));
    }
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& item) { return Equal(item, needle); });
  }
  if (container.IsUndefined()) return false;
  if (Object* object = container.AsObject();
      object != nullptr && object->kind() == Object::kGenerator) {
    while (true) {  // reads up to the one that is found
      TUTTI_ASSIGN_OR_RETURN(const auto item, static_cast<Generator*>(object)->Next());
      if (!item.has_value() || Equal(*item, needle)) return item.has_value();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("argument of type '", Absl(container.TypeName()), "' is not iterable"));
}

// Below, at or above zero; nothing when a number is no number.
using Ordering = std::optional<int>;

absl::StatusOr<Ordering> Order(std::string_view op, const Value& a, const Value& b, Work* work);

absl::StatusOr<Ordering> OrderLists(std::string_view op, const List& a, const List& b, Work* work) {
  const size_t both = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < both; ++i) {
    if (!Equal(a.items[i], b.items[i])) return Order(op, a.items[i], b.items[i], work);
  }
  return Ordering(a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size() ? 1 : 0);
}

Ordering OrderNumbers(const Value& a, const Value& b) {
  if (!a.IsFloat() && !b.IsFloat()) return CompareIntegers(a, b);
  const double left = a.AsDouble(), right = b.AsDouble();
  if (std::isnan(left) || std::isnan(right)) return std::nullopt;
  if (left != right) return left < right ? -1 : 1;
  if (a.IsFloat() && b.IsFloat()) return 0;
  if (std::isinf(left)) {  // an integer that no float holds beside an infinite one
    const bool above = left > 0;
    return a.IsFloat() == above ? 1 : -1;
  }
  // An integer that was rounded to get there: by what the float is exactly.
  const Value whole = *IntegerFromDouble(left, false);
  return a.IsFloat() ? CompareIntegers(whole, b) : CompareIntegers(a, whole);
}

// dict.keys() and dict.items(), which < and its kin compare as sets.
bool IsSetLike(const Value& value) {
  return value.IsList() &&
         (value.list()->kind == List::kKeys || value.list()->kind == List::kItems);
}

absl::StatusOr<bool> CompareSets(std::string_view op, const Value& a, const Value& b, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->Charge(a.weight() * b.weight()));
  const bool less = op[0] == '<', strict = op.size() == 1;
  const std::vector<Value>& part = (less ? a : b).list()->items;
  const std::vector<Value>& whole = (less ? b : a).list()->items;
  if (part.size() > whole.size() || (strict && part.size() == whole.size())) return false;
  return std::all_of(part.begin(), part.end(), [&](const Value& item) {
    return std::any_of(whole.begin(), whole.end(),
                       [&](const Value& other) { return Equal(item, other); });
  });
}

absl::StatusOr<Ordering> Order(std::string_view op, const Value& a, const Value& b, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->Charge(1));
  if (a.IsNumber() && b.IsNumber()) return OrderNumbers(a, b);
  if (a.IsList() && b.IsList() && a.list()->is_tuple() == b.list()->is_tuple() &&
      a.list()->kind <= List::kGroup && b.list()->kind <= List::kGroup) {
    return OrderLists(op, *a.list(), *b.list(), work);
  }
  // Bytes of UTF-8 are in the order of code points, which is Python's.
  if (a.IsStr() && b.IsStr()) return Ordering(a.str().compare(b.str()));
  if (a.IsUndefined()) return TypeError(a, "");
  if (b.IsUndefined()) return TypeError(b, "");
  return absl::InvalidArgumentError(absl::StrCat("'", Absl(op), "' not supported between '",
                                                 Absl(a.TypeName()), "' and '", Absl(b.TypeName()),
                                                 "'"));
}

}  // namespace

absl::Status Invalid(std::string_view why) { return absl::InvalidArgumentError(Absl(why)); }

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
    for (const auto& item : value.dict()->items) keys.push_back(item.first);
    TUTTI_ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(keys)));
    return list.list();
  }
  if (value.IsUndefined()) return std::make_shared<const List>();
  if (Object* object = value.AsObject();
      object != nullptr && object->kind() == Object::kGenerator) {
    return Drain(static_cast<Generator*>(object), work);
  }
  return TypeError(value, "is not iterable");
}

bool IsIterable(const Value& v) {
  const Object* object = v.AsObject();
  if (object != nullptr) {
    return object->kind() == Object::kGenerator || object->kind() == Object::kLoop;
  }
  return v.IsList() || v.IsStr() || v.IsDict() || v.IsUndefined();
}

absl::StatusOr<int64_t> Length(const Value& value, Work* work) {
  if (value.IsUndefined()) return 0;
  if (value.IsList()) return static_cast<int64_t>(value.list()->items.size());
  if (value.IsDict()) return static_cast<int64_t>(value.dict()->items.size());
  if (value.IsStr()) {
    TUTTI_RETURN_IF_ERROR(work->ChargeBytes(value.text().size()));
    return static_cast<int64_t>(CountCharacters(value.str()));
  }
  if (Object* object = value.AsObject(); object != nullptr && object->kind() == Object::kLoop) {
    TUTTI_ASSIGN_OR_RETURN(const auto length, object->Attribute("length", work));
    return length.has_value() ? length->AsInt() : 0;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("object of type '", Absl(value.TypeName()), "' has no len()"));
}

absl::StatusOr<Value> MakeRange(std::vector<Value> items, int64_t begin, int64_t end,
                                int64_t step) {
  TUTTI_ASSIGN_OR_RETURN(const Value list, Value::MakeList(std::move(items), List::kRange));
  auto range = std::make_shared<List>(*list.list());
  range->begin = begin;
  range->step = step;
  range->label = step == 1 ? absl::StrCat("range(", begin, ", ", end, ")")
                           : absl::StrCat("range(", begin, ", ", end, ", ", step, ")");
  return Value::Of(std::shared_ptr<const List>(std::move(range)));
}

absl::Status CheckHashable(const Value& key, Work* work) {
  // Tuples are walked through, and one may be in another many times.
  if (key.IsList()) TUTTI_RETURN_IF_ERROR(work->Charge(key.weight()));
  bool hashable = !key.IsDict();
  if (key.IsList()) {
    const List::Kind kind = key.list()->kind;
    hashable = key.list()->is_tuple() || kind == List::kRange || kind == List::kValues;
    for (const Value& item : key.list()->items) {
      if (key.list()->is_tuple()) TUTTI_RETURN_IF_ERROR(CheckHashable(item, work));
    }
  }
  if (hashable) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("unhashable type: '", Absl(key.TypeName()), "'"));
}

absl::StatusOr<bool> Compare(std::string_view op, const Value& a, const Value& b, Work* work) {
  if (op == "in" || op == "not in") {
    TUTTI_ASSIGN_OR_RETURN(const bool contained, Contained(a, b, work));
    return contained == (op == "in");
  }
  TUTTI_RETURN_IF_ERROR(work->Charge(std::min(a.weight(), b.weight())));
  if (op == "==") return Equal(a, b);
  if (op == "!=") return !Equal(a, b);
  if (IsSetLike(a) && IsSetLike(b)) return CompareSets(op, a, b, work);
  TUTTI_ASSIGN_OR_RETURN(const Ordering order, Order(op, a, b, work));
  if (!order.has_value()) return false;
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  if (op == ">") return *order > 0;
  return *order >= 0;
}

}  // namespace tutti::text::jinja
