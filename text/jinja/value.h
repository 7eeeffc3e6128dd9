// The values of a template: Python's, as far as templates use them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "text/jinja/text.h"

namespace tutti::text::jinja {

class Value;
struct Macro;

// A name, attribute or item that is not there. Says so when something is done with it.
struct Undefined {
  std::string what;  // "'x' is undefined"
};

struct None {};

// Lists and dicts never change once made. They nest at most kTextJsonDepthMax deep, so that walking
// and freeing them needs bounded stack, and weigh at most kTemplateStepsMax, so that walking ends:
// a list that holds another one twice walks it twice.
struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;
  int64_t weight = 1;
};

struct Dict {
  std::vector<std::pair<Text, Value>> items;  // in the order they were given; keys are strings
  int depth = 1;
  int64_t weight = 1;

  const Value* Find(std::string_view key) const;
};

// namespace(): the only thing that changes. Owned by the evaluator, because it may hold itself.
struct Namespace {
  absl::flat_hash_map<std::string, Value> attributes;
};

// `loop` inside a for.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index0 = 0;
};

class Value {
 public:
  Value() : data_(None{}) {}
  static Value Missing(std::string what);
  static Value Bool(bool value) { return Value(value, false); }
  static Value Int(int64_t value, bool from_user = false) { return Value(value, from_user); }
  static Value Float(double value, bool from_user = false) { return Value(value, from_user); }
  static Value Str(Text text) {
    return Value(std::make_shared<const Text>(std::move(text)), false);
  }
  // What the template writes itself.
  static Value Literal(std::string text) { return Str(Text(std::move(text), false)); }
  static Value Of(jinja::Namespace* value) { return Value(value, false); }
  static Value Of(std::shared_ptr<const jinja::Loop> loop) { return Value(std::move(loop), false); }
  static Value Of(const Macro* macro) { return Value(macro, false); }

  // Errors: InvalidArgument when they would nest too deep, ResourceExhausted when too heavy.
  static absl::StatusOr<Value> MakeList(std::vector<Value> items, bool is_tuple = false);
  static absl::StatusOr<Value> MakeDict(std::vector<std::pair<Text, Value>> items);

  // A value that came with the request: every string and number in it counts as the user's.
  // Errors: InvalidArgument naming the path below `path`: invalid UTF-8, too deep, an integer
  // beyond 64 bits, or something that is not JSON.
  static absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json, std::string_view path,
                                        bool from_user);

  bool IsUndefined() const { return Is<std::shared_ptr<const jinja::Undefined>>(); }
  bool IsNone() const { return Is<jinja::None>(); }
  bool IsBool() const { return Is<bool>(); }
  bool IsInt() const { return Is<int64_t>(); }
  bool IsFloat() const { return Is<double>(); }
  bool IsNumber() const { return IsInt() || IsFloat() || IsBool(); }
  bool IsStr() const { return Is<std::shared_ptr<const Text>>(); }
  bool IsList() const { return Is<std::shared_ptr<const jinja::List>>(); }
  bool IsDict() const { return Is<std::shared_ptr<const jinja::Dict>>(); }

  // REQUIRES: the matching Is...()
  const std::string& undefined() const {
    return Get<std::shared_ptr<const jinja::Undefined>>()->what;
  }
  bool AsBool() const { return Get<bool>(); }
  int64_t AsInt() const { return IsBool() ? (AsBool() ? 1 : 0) : Get<int64_t>(); }  // bool or int
  double AsDouble() const { return IsFloat() ? Get<double>() : static_cast<double>(AsInt()); }
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
  const jinja::Loop* AsLoop() const {
    const auto* found = std::get_if<std::shared_ptr<const jinja::Loop>>(&data_);
    return found == nullptr ? nullptr : found->get();
  }
  const Macro* AsMacro() const {
    const auto* found = std::get_if<const Macro*>(&data_);
    return found == nullptr ? nullptr : *found;
  }

  // Whether a number, and so the text it becomes, was given by the user. Strings know it of every
  // byte.
  bool number_from_user() const { return from_user_; }

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
                            double, std::shared_ptr<const Text>, std::shared_ptr<const jinja::List>,
                            std::shared_ptr<const jinja::Dict>, jinja::Namespace*,
                            std::shared_ptr<const jinja::Loop>, const Macro*>;

  Value(Data data, bool from_user) : data_(std::move(data)), from_user_(from_user) {}
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data_);
  }
  template <typename T>
  const T& Get() const {
    return std::get<T>(data_);
  }

  Data data_;
  bool from_user_ = false;
};

// ==
bool Equal(const Value& a, const Value& b);

}  // namespace tutti::text::jinja
