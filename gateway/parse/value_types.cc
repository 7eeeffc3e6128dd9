#include "gateway/parse/value_types.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "gateway/limits.h"
#include "gateway/parse/json_scanner.h"
#include "gateway/parse/value_text.h"

namespace tutti::gateway {
namespace {

using Type = ValueTypes::Type;

// What is JSON is tried before text, which everything is.
const std::vector<Type> kAnyType = {Type::kNull,  Type::kBoolean, Type::kInteger, Type::kNumber,
                                    Type::kArray, Type::kObject,  Type::kText};

constexpr std::array<std::pair<std::string_view, Type>, 7> kTypeNames = {{
    {"null", Type::kNull},
    {"boolean", Type::kBoolean},
    {"integer", Type::kInteger},
    {"number", Type::kNumber},
    {"array", Type::kArray},
    {"object", Type::kObject},
    {"string", Type::kText},
}};

// Keywords that say nothing of values of other types; their schemas rarely mean those.
constexpr std::array<std::pair<std::string_view, Type>, 20> kTypeOfKeyword = {{
    {"properties", Type::kObject},
    {"additionalProperties", Type::kObject},
    {"patternProperties", Type::kObject},
    {"required", Type::kObject},
    {"minProperties", Type::kObject},
    {"maxProperties", Type::kObject},
    {"items", Type::kArray},
    {"prefixItems", Type::kArray},
    {"contains", Type::kArray},
    {"minItems", Type::kArray},
    {"maxItems", Type::kArray},
    {"uniqueItems", Type::kArray},
    {"minimum", Type::kNumber},
    {"maximum", Type::kNumber},
    {"exclusiveMinimum", Type::kNumber},
    {"exclusiveMaximum", Type::kNumber},
    {"multipleOf", Type::kNumber},
    {"pattern", Type::kText},
    {"minLength", Type::kText},
    {"maxLength", Type::kText},
}};

// What takes a visit of a listed value's JSON, so that long ones have their price.
constexpr size_t kBytesPerVisit = 64;

Type TypeOfJson(const Json& value) {
  if (value.is_null()) return Type::kNull;
  if (value.is_boolean()) return Type::kBoolean;
  if (value.is_number_integer()) return Type::kInteger;
  if (value.is_number()) return Type::kNumber;
  if (value.is_array()) return Type::kArray;
  return value.is_object() ? Type::kObject : Type::kText;
}

// Adds a type that is not there.
void Add(Type type, std::vector<Type>* types) {
  if (std::find(types->begin(), types->end(), type) == types->end()) types->push_back(type);
}

// What both allow, in the order of the first. A number that must be an integer is one.
std::vector<Type> Both(const std::vector<Type>& a, const std::vector<Type>& b) {
  const auto has = [](const std::vector<Type>& types, Type type) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  std::vector<Type> both;
  for (const Type type : a) {
    if (has(b, type)) {
      Add(type, &both);
    } else if (type == Type::kNumber && has(b, Type::kInteger)) {
      Add(Type::kInteger, &both);
    } else if (type == Type::kInteger && has(b, Type::kNumber)) {
      Add(Type::kInteger, &both);
    }
  }
  return both;
}

class Resolver {
 public:
  Resolver(const Json& root, int64_t* visits_left) : root_(root), visits_left_(*visits_left) {}

  ValueTypes Resolve(const Json& schema) {
    ValueTypes found{.types = kAnyType};
    const Visit visit(this);
    if (!visit.allowed() || !schema.is_object()) return found;
    bool said = false;
    const auto restrict_to = [&](ValueTypes more) {
      said = true;
      std::vector<Type> both = Both(more.types, found.types);
      if (!both.empty()) found.types = std::move(both);
      if (found.values.empty()) found.values = std::move(more.values);
    };
    if (const Json* target = Target(schema); target != nullptr) restrict_to(Resolve(*target));
    if (auto types = TypesNamed(schema); !types.empty()) restrict_to({std::move(types), {}});
    if (auto listed = Listed(schema); !listed.types.empty()) restrict_to(std::move(listed));
    for (const Json& part : List(schema, "allOf")) {
      if (IsSpent()) break;
      restrict_to(Resolve(part));
    }
    for (const char* name : {"anyOf", "oneOf"}) {
      if (const Json& branches = List(schema, name); !branches.empty()) {
        restrict_to(Union(branches));
      }
    }
    if (IsSpent()) return {.types = kAnyType};  // the rest would have allowed more
    if (!said) PutKeywordsFirst(schema, &found.types);
    return found;
  }

  // Also those that the schema has by reference or in parts.
  void CollectProperties(const Json& schema, Parameters* parameters) {
    const Visit visit(this);
    if (!visit.allowed() || !schema.is_object()) return;
    if (const Json* target = Target(schema); target != nullptr) {
      CollectProperties(*target, parameters);
    }
    for (const char* name : {"allOf", "anyOf", "oneOf"}) {
      for (const Json& part : List(schema, name)) {
        if (IsSpent()) break;
        CollectProperties(part, parameters);
      }
    }
    const auto properties = schema.find("properties");
    if (properties == schema.end() || !properties->is_object()) return;
    for (const auto& [key, property] : properties->items()) {
      (*parameters)[key] = Resolve(property);
    }
  }

 private:
  // Every schema that is looked at counts, so that neither circles nor branches go on for long.
  class Visit {
   public:
    explicit Visit(Resolver* resolver) : resolver_(*resolver) {
      resolver_.Spend(1);
      ++resolver_.depth_;
    }
    ~Visit() { --resolver_.depth_; }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    bool allowed() const { return !resolver_.IsSpent() && resolver_.depth_ <= kJsonDepthMax; }

   private:
    Resolver& resolver_;
  };

  bool IsSpent() const { return visits_left_ < 0; }
  void Spend(size_t visits) { visits_left_ -= static_cast<int64_t>(visits); }

  // The schema that "$ref" names; null: none, or none that is here.
  const Json* Target(const Json& schema) const {
    const auto ref = schema.find("$ref");
    if (ref == schema.end() || !ref->is_string()) return nullptr;
    const auto& text = ref->get_ref<const std::string&>();
    if (text == "#") return &root_;
    if (!text.starts_with("#/") || text.size() > kListedValueBytesMax) return nullptr;
    const Json* at = &root_;
    for (size_t begin = 2; begin <= text.size();) {
      const size_t end = std::min(text.find('/', begin), text.size());
      at = Member(*at, Unescaped(text.substr(begin, end - begin)));
      if (at == nullptr) return nullptr;
      begin = end + 1;
    }
    return at;
  }

  static const Json* Member(const Json& at, const std::string& name) {
    if (at.is_object()) {
      const auto found = at.find(name);
      return found == at.end() ? nullptr : &*found;
    }
    if (!at.is_array() || name.empty() || name.size() > 4 ||
        name.find_first_not_of("0123456789") != std::string::npos) {
      return nullptr;
    }
    const size_t index = std::stoul(name);
    return index < at.size() ? &at[index] : nullptr;
  }

  // Of a JSON pointer: ~1 is a slash, ~0 a tilde.
  static std::string Unescaped(std::string name) {
    for (size_t at = 0; (at = name.find('~', at)) != std::string::npos; ++at) {
      if (at + 1 == name.size()) break;
      name.replace(at, 2, name[at + 1] == '1' ? "/" : "~");
    }
    return name;
  }

  static const Json& List(const Json& schema, const char* name) {
    static const Json kNone = Json::array();
    const auto found = schema.find(name);
    return found != schema.end() && found->is_array() ? *found : kNone;
  }

  std::vector<Type> TypesNamed(const Json& schema) {
    std::vector<Type> types;
    const auto found = schema.find("type");
    if (found == schema.end()) return types;
    const auto add = [&](const Json& one) {
      Spend(1);
      if (IsSpent() || !one.is_string()) return;
      for (const auto& [name, type] : kTypeNames) {
        if (one.get_ref<const std::string&>() == name) Add(type, &types);
      }
    };
    if (!found->is_array()) add(*found);
    for (const Json& one : List(schema, "type")) add(one);
    return types;
  }

  // Of const and enum. No value: neither is there.
  ValueTypes Listed(const Json& schema) {
    ValueTypes listed{.types = {}};
    const auto add = [&](const Json& value) {
      Spend(1);
      if (IsSpent()) return;
      Add(TypeOfJson(value), &listed.types);
      std::string json = value.dump();
      Spend(json.size() / kBytesPerVisit);
      if (json.size() > kListedValueBytesMax) return;
      const std::string* const text = value.get_ptr<const std::string*>();
      listed.values.push_back(
          {std::move(json), text == nullptr ? std::nullopt : std::optional(*text)});
    };
    if (const auto only = schema.find("const"); only != schema.end()) {
      add(*only);
    } else {
      for (const Json& value : List(schema, "enum")) add(value);
    }
    return listed;
  }

  ValueTypes Union(const Json& branches) {
    ValueTypes all{.types = {}};
    for (const Json& branch : branches) {
      if (IsSpent()) break;
      ValueTypes one = Resolve(branch);
      for (const Type type : one.types) Add(type, &all.types);
      std::move(one.values.begin(), one.values.end(), std::back_inserter(all.values));
    }
    return all;
  }

  static void PutKeywordsFirst(const Json& schema, std::vector<Type>* types) {
    std::vector<Type> first;
    for (const auto& [keyword, type] : kTypeOfKeyword) {
      if (schema.contains(std::string(keyword))) Add(type, &first);
    }
    for (const Type type : *types) Add(type, &first);
    *types = std::move(first);
  }

  const Json& root_;
  int64_t& visits_left_;
  int depth_ = 0;
};

std::string_view WithoutBlanks(std::string_view text) {
  text = WithoutFirstBlanks(text);
  while (!text.empty() && IsJsonBlank(text.back())) text.remove_suffix(1);
  return text;
}

// The one of the listed values that is written so.
std::optional<std::string> FindListed(std::string_view text, const ValueTypes& types) {
  for (const ValueTypes::Value& value : types.values) {
    if (value.json == text || value.text == text) return value.json;
  }
  return std::nullopt;
}

// The value as one of the type; nothing where it is none.
std::optional<std::string> AsType(std::string_view text, const std::string& lower, Type type) {
  switch (type) {
    case Type::kNull:
      if (lower == "null" || lower == "none") return "null";
      return std::nullopt;
    case Type::kBoolean:
      if (lower == "true" || lower == "false") return lower;
      return std::nullopt;
    case Type::kInteger:
      if (!IsJsonNumber(text) || text.find_first_of(".eE") != std::string_view::npos) break;
      return std::string(text);
    case Type::kNumber:
      if (IsJsonNumber(text)) return std::string(text);
      break;
    case Type::kArray:
    case Type::kObject:
      if (text.starts_with(type == Type::kArray ? '[' : '{') && IsNestedJson(text)) {
        return std::string(text);
      }
      break;
    case Type::kText:
      break;
  }
  return std::nullopt;
}

}  // namespace

bool ValueTypes::Allows(Type type) const {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Parameters ParametersOf(const Json& schema, int64_t* visits_left) {
  Parameters parameters;
  Resolver(schema, visits_left).CollectProperties(schema, &parameters);
  return parameters;
}

std::string JsonOfValue(std::string_view text, const ValueTypes& types) {
  const std::string_view value = WithoutBlanks(text);
  if (auto listed = FindListed(value, types); listed.has_value()) return *std::move(listed);
  const std::string lower = absl::AsciiStrToLower(std::string(value.substr(0, 8)));
  if (types.Allows(Type::kNull) && (lower == "null" || lower == "none")) return "null";
  std::optional<std::string> found;
  for (const Type type : types.types) {
    if (type == Type::kText) break;  // whatever it is
    if ((found = AsType(value, lower, type)).has_value()) return *std::move(found);
  }
  // Models write 2.0 for a whole number, and nulls for what should not be one.
  const bool is_text = types.Allows(Type::kText);
  if (!is_text && types.Allows(Type::kInteger) && IsJsonNumber(value)) return std::string(value);
  if (!is_text && (lower == "null" || lower == "none")) return "null";
  std::string json = "\"";
  AppendEscaped(text, &json);
  return json + "\"";
}

}  // namespace tutti::gateway
