#include "gateway/closed_schema.h"

#include <algorithm>
#include <iterator>

#include "gateway/limits.h"
#include "gateway/written_json.h"

namespace tutti::gateway {
namespace {

constexpr const char* kSchemaMaps[] = {"properties", "patternProperties", "$defs", "definitions"};
constexpr const char* kSchemaValues[] = {"items", "additionalItems", "additionalProperties"};
constexpr const char* kSchemaLists[] = {"items", "prefixItems"};
constexpr const char* kSchemaUnions[] = {"anyOf", "oneOf"};
// Beside these other members may be meant.
constexpr const char* kOpenKeywords[] = {"additionalProperties",
                                         "unevaluatedProperties",
                                         "patternProperties",
                                         "minProperties",
                                         "dependentSchemas",
                                         "dependentRequired",
                                         "dependencies",
                                         "if",
                                         "not",
                                         "anyOf",
                                         "oneOf"};

template <typename Names>
bool IsIn(const Names& names, std::string_view name) {
  return std::any_of(std::begin(names), std::end(names),
                     [name](const char* one) { return name == one; });
}

bool IsObject(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  return found != schema.end() && found->is_object();
}

// Whether several schemas speak of one value somewhere inside.
bool BringsTogether(const Json& value) {
  if (value.is_object() &&
      (value.contains("allOf") || value.contains("$dynamicRef") ||
       (value.contains("$ref") && (value.contains("properties") || value.contains("required") ||
                                   value.contains("anyOf") || value.contains("oneOf"))))) {
    return true;
  }
  return value.is_structured() && std::any_of(value.begin(), value.end(), BringsTogether);
}

bool MayClose(const Json& schema) {
  if (!IsObject(schema, "properties")) return false;
  if (std::any_of(std::begin(kOpenKeywords), std::end(kOpenKeywords),
                  [&](const char* name) { return schema.contains(name); })) {
    return false;
  }
  const auto required = schema.find("required");
  if (required == schema.end() || !required->is_array()) return true;
  const Json& properties = schema["properties"];
  return std::all_of(required->begin(), required->end(), [&](const Json& name) {
    return name.is_string() && properties.contains(name.get_ref<const std::string&>());
  });
}

class SchemaCloser {
 public:
  // `may_close`: no other schema speaks of the value.
  void Schema(const Json& schema, std::string_view written, bool may_close) {
    if (!schema.is_object()) return Copy(written);
    const bool closes = may_close && MayClose(schema);
    const bool closes_branches = may_close && !schema.contains("properties");
    Object(written, closes, [&](std::string_view name, std::string_view value) {
      const auto found = schema.find(std::string(name));
      if (found == schema.end()) return Copy(value);
      Keyword(name, *found, value, closes_branches);
    });
  }

  std::string Take() { return std::move(text_); }

 private:
  void Copy(std::string_view text) { text_ += text; }

  template <typename Write>
  void Object(std::string_view written, bool closes, const Write& write) {
    text_ += '{';
    bool begun = false;
    for (const WrittenMember& member : MembersAsWritten(written)) {
      if (begun) text_ += ',';
      begun = true;
      Copy(Dump(member.name));
      text_ += ':';
      write(member.name, member.value);
    }
    if (closes)
      text_ += begun ? ",\"additionalProperties\":false" : "\"additionalProperties\":false";
    text_ += '}';
  }

  void Keyword(std::string_view name, const Json& value, std::string_view written,
               bool closes_branches) {
    if (value.is_object() && IsIn(kSchemaMaps, name)) {
      Object(written, /*closes=*/false, [&](std::string_view key, std::string_view part) {
        const auto found = value.find(std::string(key));
        if (found == value.end()) return Copy(part);
        Schema(*found, part, /*may_close=*/true);
      });
    } else if (value.is_object() && IsIn(kSchemaValues, name)) {
      Schema(value, written, /*may_close=*/true);
    } else if (value.is_array() && (IsIn(kSchemaLists, name) || IsIn(kSchemaUnions, name))) {
      List(value, written, IsIn(kSchemaLists, name) || closes_branches);
    } else {
      Copy(written);
    }
  }

  void List(const Json& list, std::string_view written, bool may_close) {
    const auto items = ItemsAsWritten(written);
    if (items.size() != list.size()) return Copy(written);
    text_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_ += ',';
      Schema(list[i], items[i], may_close);
    }
    text_ += ']';
  }

  std::string text_;
};

}  // namespace

std::string ClosedSchema(const Json& schema, std::string_view written) {
  // Each level is looked through again; what is longer than all tools may be the service refuses.
  if (written.size() > kToolsBytesMax || BringsTogether(schema)) return std::string(written);
  SchemaCloser closer;
  closer.Schema(schema, written, /*may_close=*/true);
  return closer.Take();
}

}  // namespace tutti::gateway
