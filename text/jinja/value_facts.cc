// The facts that all values have: a type, a size, and equality.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "absl/hash/hash.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/object.h"
#include "text/jinja/value.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

// The same for keys that are equal, as numbers of different types may be.
size_t HashOf(const Value& key) {
  constexpr double kSmall = 9.2e18;  // below it integers are told apart as such
  if (key.IsStr()) return absl::Hash<std::string_view>()(key.str());
  if (key.IsNumber()) {
    const double number = key.AsDouble();
    if (!(std::fabs(number) < kSmall)) return absl::Hash<double>()(number);
    if (!key.IsFloat()) return absl::Hash<int64_t>()(key.AsInt());
    const bool whole = std::trunc(number) == number;
    return whole ? absl::Hash<int64_t>()(static_cast<int64_t>(number))
                 : absl::Hash<double>()(number);
  }
  size_t hash = 0;
  if (key.IsList() && key.list()->is_tuple()) {
    constexpr size_t kFactor = 1'000'003;
    for (const Value& part : key.list()->items) hash = hash * kFactor + HashOf(part);
  }
  return hash;
}

// A dict may have very many keys.
bool EqualDicts(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  const auto hash = [](const Value* key) { return HashOf(*key); };
  const auto equal = [](const Value* one, const Value* other) { return Equal(*one, *other); };
  std::unordered_map<const Value*, const Value*, decltype(hash), decltype(equal)> values(
      b.items.size(), hash, equal);
  for (const auto& [key, value] : b.items) values.try_emplace(&key, &value);
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
    const auto found = values.find(&item.first);
    return found != values.end() && Equal(item.second, *found->second);
  });
}

// dict.keys() and dict.items(), which are equal in any order.
bool IsSetLike(const List& list) { return list.kind == List::kKeys || list.kind == List::kItems; }

Dict DictOf(const List& view) {
  Dict dict;
  dict.items.reserve(view.items.size());
  for (const Value& item : view.items) {
    if (view.kind == List::kKeys) {
      dict.items.emplace_back(item, Value());
    } else {
      dict.items.emplace_back(item.list()->items[0], item.list()->items[1]);
    }
  }
  return dict;
}

bool EqualSets(const List& a, const List& b) {
  if (a.kind == b.kind) return EqualDicts(DictOf(a), DictOf(b));
  // Keys are pairs only where the template itself has made them.
  return a.items.size() == b.items.size() &&
         std::is_permutation(a.items.begin(), a.items.end(), b.items.begin(), Equal);
}

bool EqualLists(const List& a, const List& b) {
  if (IsSetLike(a) && IsSetLike(b)) return EqualSets(a, b);
  if (a.kind == List::kValues || b.kind == List::kValues) return &a == &b;
  const auto same_type = [](const List& list) {
    return list.is_tuple() ? List::kTuple : list.kind;
  };
  return same_type(a) == same_type(b) &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), Equal);
}

bool EqualNumbers(const Value& a, const Value& b) {
  if (!a.IsFloat() && !b.IsFloat()) return CompareIntegers(a, b) == 0;
  if (a.IsFloat() && b.IsFloat()) return a.AsDouble() == b.AsDouble();
  const Value& number = a.IsFloat() ? b : a;
  const double other = a.IsFloat() ? a.AsDouble() : b.AsDouble();
  const absl::StatusOr<Value> whole = IntegerFromDouble(other, false);
  return whole.ok() && std::trunc(other) == other && CompareIntegers(*whole, number) == 0;
}

}  // namespace

std::string_view Value::TypeName() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "NoneType";
  if (IsBool()) return "bool";
  if (IsInt() || IsBig()) return "int";
  if (IsFloat()) return "float";
  if (IsStr()) return IsMarkup() ? "Markup" : "str";
  if (IsDict()) return "dict";
  if (AsNamespace() != nullptr) return "namespace";
  if (AsObject() != nullptr) return AsObject()->TypeName();
  constexpr std::string_view kNames[] = {"list",       "tuple",     "_GroupTuple", "range",
                                         "dict_items", "dict_keys", "dict_values"};
  return kNames[list()->kind];
}

int Value::depth() const {
  if (IsList()) return list()->depth;
  if (IsDict()) return dict()->depth;
  return AsObject() != nullptr ? AsObject()->depth() : 0;
}

int64_t Value::weight() const {
  if (IsStr()) return 1 + static_cast<int64_t>(text().memory()) / kTemplateBytesPerStep;
  if (IsBig()) return 1 + static_cast<int64_t>(digits().size());
  if (IsList()) return list()->weight;
  if (IsDict()) return dict()->weight;
  return AsObject() != nullptr ? AsObject()->weight() : 1;
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return EqualNumbers(a, b);
  if (a.IsStr() && b.IsStr()) return a.str() == b.str();
  if (a.IsList() && b.IsList()) return EqualLists(*a.list(), *b.list());
  if (a.IsDict() && b.IsDict()) return EqualDicts(*a.dict(), *b.dict());
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsUndefined() || b.IsUndefined()) return a.IsUndefined() && b.IsUndefined();
  return (a.AsNamespace() != nullptr && a.AsNamespace() == b.AsNamespace()) ||
         (a.AsObject() != nullptr && a.AsObject() == b.AsObject());
}

bool Same(const Value& a, const Value& b) {
  if (a.IsBool() || b.IsBool()) return a.IsBool() && b.IsBool() && a.AsBool() == b.AsBool();
  if (a.IsList() && b.IsList()) return a.list() == b.list();
  if (a.IsDict() && b.IsDict()) return a.dict() == b.dict();
  if (a.IsFloat() != b.IsFloat() || a.IsMarkup() != b.IsMarkup()) return false;
  return !a.IsUndefined() && Equal(a, b);
}

}  // namespace tutti::text::jinja
