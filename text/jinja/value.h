// The values of a template: Python's, as far as templates use them.
//
// Its functions are in three files, because two families of them depend on what a value holds
// alone: facts (value_facts.cc) and JSON (value_json.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/text.h"

namespace tutti::text::jinja {

class Object;
class Value;

// A name, attribute or item that is not there. Says so when something is done with it.
struct Undefined {
  std::string what;  // "'x' is undefined"
};

struct None {};

// An integer beyond 64 bits, in decimal digits without leading zeros. big_integer.h computes.
struct BigInteger {
  std::string digits;
};

// Lists and dicts never change once made: Jinja's sandbox does not let templates change them
// either. They nest at most kTextJsonDepthMax deep, so that walking and freeing them needs bounded
// stack, and weigh at most kTemplateStepsMax, so that walking ends: a list that holds another one
// twice walks it twice.
struct List {
  enum Kind {
    kList,
    kTuple,
    kGroup,  // a tuple (grouper, list) of groupby
    kRange,  // range(...), printed as `label`
    kItems,  // dict.items(), and below: iterated, but without items by index
    kKeys,
    kValues,
  };
  std::vector<Value> items;
  Kind kind = kList;
  std::string label;
  int64_t begin = 0, step = 1;  // of a range
  int depth = 1;
  int64_t weight = 1;

  bool is_tuple() const { return kind == kTuple || kind == kGroup; }
  bool is_view() const { return kind >= kItems; }
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order they were given
  int depth = 1;
  int64_t weight = 1;

  // The value by Python's ==; null when there is none.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
};

// namespace(): the only thing that changes. Owned by the evaluator, because it may hold itself.
struct Namespace {
  // The standard's: others are not whole any more when memory runs out.
  std::unordered_map<std::string, Value> attributes;
};

class Value {
 public:
  Value() : data_(None{}) {}
  static Value Missing(std::string what);
  static Value Bool(bool value) { return Value(value, false); }
  static Value Int(int64_t value, bool from_user = false) { return Value(value, from_user); }
  // REQUIRES: `digits` do not fit 64 bits
  static Value Big(std::string digits, bool from_user);
  static Value Float(double value, bool from_user = false) { return Value(value, from_user); }
  static Value Str(Text text, bool is_markup = false) {
    return Value(std::make_shared<const Text>(std::move(text)), is_markup);
  }
  // Text of the template itself.
  static Value Literal(std::string text) { return Str(Text(std::move(text), false)); }
  static Value Of(jinja::Namespace* value) { return Value(value, false); }
  static Value Of(std::shared_ptr<const jinja::List> list) { return Value(std::move(list), false); }
  static Value Of(std::shared_ptr<Object> object) { return Value(std::move(object), false); }

  // Errors: InvalidArgument when they would nest too deep, ResourceExhausted when too heavy.
  static absl::StatusOr<Value> MakeList(std::vector<Value> items, List::Kind kind = List::kList);
  // Among equal keys the first stays with the last value, as in Python.
  static absl::StatusOr<Value> MakeDict(std::vector<std::pair<Value, Value>> items);

  // A value that came with the request: every string and number in it counts as the user's.
  // Integers beyond 64 bits are binary values that hold their digits (template_json.h).
  // Errors: InvalidArgument naming the path below `path`: invalid UTF-8, too deep, or something
  // that is not JSON.
  static absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json, std::string_view path,
                                        bool from_user);

  bool IsUndefined() const { return Is<std::shared_ptr<const jinja::Undefined>>(); }
  bool IsNone() const { return Is<jinja::None>(); }
  bool IsBool() const { return Is<bool>(); }
  bool IsInt() const { return Is<int64_t>(); }  // that fits 64 bits
  bool IsBig() const { return Is<std::shared_ptr<const BigInteger>>(); }
  bool IsFloat() const { return Is<double>(); }
  bool IsInteger() const { return IsInt() || IsBool() || IsBig(); }  // what Python's int() is
  bool IsNumber() const { return IsInteger() || IsFloat(); }
  bool IsStr() const { return Is<std::shared_ptr<const Text>>(); }
  // A string that |safe or |escape made: what is added to it is escaped.
  bool IsMarkup() const { return IsStr() && flag_; }
  bool IsList() const { return Is<std::shared_ptr<const jinja::List>>(); }  // of any kind
  bool IsDict() const { return Is<std::shared_ptr<const jinja::Dict>>(); }

  // REQUIRES: the matching Is...()
  const std::string& undefined() const {
    return Get<std::shared_ptr<const jinja::Undefined>>()->what;
  }
  bool AsBool() const { return Get<bool>(); }
  int64_t AsInt() const { return IsBool() ? (AsBool() ? 1 : 0) : Get<int64_t>(); }  // bool or int
  const std::string& digits() const { return Get<std::shared_ptr<const BigInteger>>()->digits; }
  double AsDouble() const;  // any number
  const Text& text() const { return *Get<std::shared_ptr<const Text>>(); }
  std::string_view str() const { return text().bytes(); }
  const std::shared_ptr<const jinja::List>& list() const {
    return Get<std::shared_ptr<const jinja::List>>();
  }
  const std::shared_ptr<const jinja::Dict>& dict() const {
    return Get<std::shared_ptr<const jinja::Dict>>();
  }

  // Null when it is something else.
  jinja::Namespace* AsNamespace() const {
    const auto* found = std::get_if<jinja::Namespace*>(&data_);
    return found == nullptr ? nullptr : *found;
  }
  Object* AsObject() const {
    const auto* found = std::get_if<std::shared_ptr<Object>>(&data_);
    return found == nullptr ? nullptr : found->get();
  }

  // Whether a number, and so the text it becomes, was given by the user. Strings know it of every
  // byte.
  bool number_from_user() const { return flag_ && IsNumber(); }

  // bool(value)
  bool Truth() const;
  // Python's name of the type, for messages: "str", "dict".
  std::string_view TypeName() const;
  int depth() const;
  // Steps that walking all of it takes: one for each value, and one for kTemplateBytesPerStep of
  // string.
  int64_t weight() const;

 private:
  using Data = std::variant<jinja::None, std::shared_ptr<const jinja::Undefined>, bool, int64_t,
                            std::shared_ptr<const BigInteger>, double, std::shared_ptr<const Text>,
                            std::shared_ptr<const jinja::List>, std::shared_ptr<const jinja::Dict>,
                            jinja::Namespace*, std::shared_ptr<Object>>;

  Value(Data data, bool flag) : data_(std::move(data)), flag_(flag) {}
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T& Get() const {
    return std::get<T>(data_);
  }

  Data data_;
  bool flag_ = false;  // of a number: from the user; of a string: markup
};

// ==
bool Equal(const Value& a, const Value& b);
// `is` of Python, as far as templates can tell.
bool Same(const Value& a, const Value& b);

}  // namespace tutti::text::jinja
