#include <algorithm>
#include <array>

#include "grammar/schema_source.h"

namespace tutti::grammar {
namespace {

// What a keyword's value must be.
enum class Form { kCount, kNumber, kPositive, kString, kArray, kSchemaMap, kSchema, kSchemas };

struct Keyword {
  std::string_view name;
  Form form;
};
constexpr std::array kServed = std::to_array<Keyword>({
    {"$ref", Form::kString},
    {"additionalProperties", Form::kSchema},
    {"allOf", Form::kSchemas},
    {"anyOf", Form::kSchemas},
    {"enum", Form::kArray},
    {"exclusiveMaximum", Form::kNumber},
    {"exclusiveMinimum", Form::kNumber},
    {"format", Form::kString},
    {"maxItems", Form::kCount},
    {"maxLength", Form::kCount},
    {"maxProperties", Form::kCount},
    {"maximum", Form::kNumber},
    {"minItems", Form::kCount},
    {"minLength", Form::kCount},
    {"minProperties", Form::kCount},
    {"minimum", Form::kNumber},
    {"multipleOf", Form::kPositive},
    {"oneOf", Form::kSchemas},
    {"pattern", Form::kString},
    {"patternProperties", Form::kSchemaMap},
    {"prefixItems", Form::kSchemas},
    {"properties", Form::kSchemaMap},
    {"propertyNames", Form::kSchema},
});

// Keywords that say something of the value which no mask of ours can see to; allowed where they say
// nothing.
constexpr std::array<std::string_view, 15> kRefused = {"$dynamicRef",
                                                       "$recursiveRef",
                                                       "contains",
                                                       "dependencies",
                                                       "dependentSchemas",
                                                       "if",
                                                       "not",
                                                       "dependentRequired",
                                                       "uniqueItems",
                                                       "unevaluatedItems",
                                                       "unevaluatedProperties",
                                                       "extends",
                                                       "disallow",
                                                       "divisibleBy",
                                                       "$dynamicAnchor"};

bool SaysNothing(const JsonValue& schema, const JsonValue::Member& member) {
  const std::string& name = member.name;
  const JsonValue& value = member.value;
  if (name == "uniqueItems") return value.is(JsonValue::Kind::kBoolean) && !value.boolean;
  if (name.starts_with("unevaluated")) return value.is(JsonValue::Kind::kBoolean) && value.boolean;
  if (name == "if") return schema.Find("then") == nullptr && schema.Find("else") == nullptr;
  if (name == "$dynamicAnchor") return true;
  return name.starts_with("depend") && value.is(JsonValue::Kind::kObject) && value.members.empty();
}

bool IsSchema(const JsonValue& value) {
  return value.is(JsonValue::Kind::kObject) || value.is(JsonValue::Kind::kBoolean);
}

bool AllSchemas(const JsonValue& value) {
  return std::all_of(value.items.begin(), value.items.end(), IsSchema) &&
         std::all_of(value.members.begin(), value.members.end(),
                     [](const JsonValue::Member& member) { return IsSchema(member.value); });
}

bool SaysAloneBy(std::string_view name) {
  if (name == "$ref" || name == "allOf" || name == "anyOf" || name == "oneOf") return false;
  return name == "type" || name == "const" || name == "required" || name == "items" ||
         name == "additionalItems" ||
         std::any_of(kServed.begin(), kServed.end(),
                     [&](const Keyword& keyword) { return keyword.name == name; });
}

}  // namespace

absl::Status SchemaSource::Check(const JsonValue& schema) {
  if (!checked_.try_emplace(&schema, true).second) return absl::OkStatus();
  if (!IsSchema(schema)) return Error(schema, "", "no schema, which is an object or a boolean");
  TUTTI_RETURN_IF_ERROR(Spend(4 + 8 * static_cast<int64_t>(schema.members.size())));
  // Draft 7: what stands beside a reference says nothing.
  const bool hidden = draft7_ && schema.Find("$ref") != nullptr;
  bool alone = schema.is(JsonValue::Kind::kBoolean);
  for (const JsonValue::Member& member : schema.members) {
    if (hidden && member.name != "$ref") continue;
    TUTTI_RETURN_IF_ERROR(
        Spend(static_cast<int64_t>(member.value.items.size() + member.value.members.size()) / 4));
    TUTTI_RETURN_IF_ERROR(CheckKeyword(schema, member));
    alone |= SaysAloneBy(member.name);
  }
  checked_[&schema] = alone;
  return absl::OkStatus();
}

absl::Status SchemaSource::CheckKeyword(const JsonValue& schema, const JsonValue::Member& member) {
  const std::string& name = member.name;
  const JsonValue& value = member.value;
  if (std::find(kRefused.begin(), kRefused.end(), name) != kRefused.end()) {
    return SaysNothing(schema, member) ? absl::OkStatus() : Error(schema, name, "is not served");
  }
  if (name == "type") return CheckType(schema, value);
  if (name == "items") {
    const bool fits = IsSchema(value) || (value.is(JsonValue::Kind::kArray) && arrays_of_items_);
    return fits && (IsSchema(value) || AllSchemas(value)) ? absl::OkStatus()
                                                          : Error(schema, name, "must be a schema");
  }
  if (name == "additionalItems") {
    return IsSchema(value) ? absl::OkStatus() : Error(schema, name, "must be a schema");
  }
  if (name == "required") {
    const bool names =
        value.is(JsonValue::Kind::kArray) &&
        std::all_of(value.items.begin(), value.items.end(),
                    [](const JsonValue& item) { return item.is(JsonValue::Kind::kString); });
    return names ? absl::OkStatus() : Error(schema, name, "must be an array of names");
  }
  const auto* known = std::find_if(kServed.begin(), kServed.end(),
                                   [&](const Keyword& keyword) { return keyword.name == name; });
  if (known == kServed.end()) return absl::OkStatus();  // says nothing of values
  switch (known->form) {
    case Form::kCount:
      if (!value.is(JsonValue::Kind::kNumber) || !Count(schema, name)) {
        return Error(schema, name, "must be a whole number that is not negative");
      }
      return absl::OkStatus();
    case Form::kNumber:
      return value.is(JsonValue::Kind::kNumber) ? absl::OkStatus()
                                                : Error(schema, name, "must be a number");
    case Form::kPositive:
      if (!value.is(JsonValue::Kind::kNumber) || Compare(ToDecimal(value.text), Decimal()) <= 0) {
        return Error(schema, name, "must be a number above zero");
      }
      return absl::OkStatus();
    case Form::kString:
      return value.is(JsonValue::Kind::kString) ? absl::OkStatus()
                                                : Error(schema, name, "must be a string");
    case Form::kArray:
      return value.is(JsonValue::Kind::kArray) ? absl::OkStatus()
                                               : Error(schema, name, "must be an array");
    default:
      return CheckSubschemas(schema, member);
  }
}

absl::Status SchemaSource::CheckSubschemas(const JsonValue& schema,
                                           const JsonValue::Member& member) const {
  const std::string& name = member.name;
  const JsonValue& value = member.value;
  const auto* known = std::find_if(kServed.begin(), kServed.end(),
                                   [&](const Keyword& keyword) { return keyword.name == name; });
  if (known->form == Form::kSchema) {
    return IsSchema(value) ? absl::OkStatus() : Error(schema, name, "must be a schema");
  }
  if (known->form == Form::kSchemaMap) {
    return value.is(JsonValue::Kind::kObject) && AllSchemas(value)
               ? absl::OkStatus()
               : Error(schema, name, "must be an object of schemas");
  }
  return value.is(JsonValue::Kind::kArray) && AllSchemas(value) && !value.items.empty()
             ? absl::OkStatus()
             : Error(schema, name, "must be an array of schemas, not empty");
}

absl::Status SchemaSource::CheckType(const JsonValue& schema, const JsonValue& type) const {
  static constexpr std::array<std::string_view, 7> kNames = {"array",  "boolean", "integer", "null",
                                                             "number", "object",  "string"};
  const auto known = [](const JsonValue& name) {
    return name.is(JsonValue::Kind::kString) &&
           std::find(kNames.begin(), kNames.end(), name.text) != kNames.end();
  };
  const bool fits = type.is(JsonValue::Kind::kArray)
                        ? std::all_of(type.items.begin(), type.items.end(), known)
                        : known(type);
  return fits ? absl::OkStatus() : Error(schema, "type", "no type of JSON, nor an array of them");
}

}  // namespace tutti::grammar
