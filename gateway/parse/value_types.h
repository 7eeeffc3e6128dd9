// The values that a parameter may have, by its JSON schema: models write them without quotes, so
// that 5 may be a number or a text.
//
// Pure.  Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/json_text.h"

namespace tutti::gateway {

struct ValueTypes {
  enum class Type : uint8_t { kNull, kBoolean, kInteger, kNumber, kArray, kObject, kText };

  // In the order in which they are tried.
  std::vector<Type> types = {Type::kText};
  // Of `enum` and `const`: tried before.
  struct Value {
    std::string json;
    std::optional<std::string> text;  // of one that is a text
    bool operator==(const Value&) const = default;
  };
  std::vector<Value> values = {};
  // The answer's grammar has it written as JSON, texts with their quotation marks.
  bool is_json = false;

  // Whatever is written, it is a text.
  bool is_text() const {
    return types == std::vector<Type>{Type::kText} && values.empty() && !is_json;
  }
  bool Allows(Type type) const;
  bool operator==(const ValueTypes&) const = default;
};

// The parameters of a function by name.
using Parameters = std::map<std::string, ValueTypes, std::less<>>;

// The properties of a schema of arguments, each resolved as a validator would: $ref within it,
// allOf, anyOf and oneOf, enum and const, several types; without any, what its other keywords are
// about, and then every type. Each schema and listed value that is looked at takes from what is
// left of a request's kSchemaVisitsMax; where nothing is left, all that is known is any value.
Parameters ParametersOf(const Json& schema, int64_t* visits_left);

// A value as JSON, without blanks around it, of the first type that it is of; null is null wherever
// it may be. Else its text as a JSON string, blanks and all.
std::string JsonOfValue(std::string_view text, const ValueTypes& types);

}  // namespace tutti::gateway
