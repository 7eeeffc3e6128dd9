#include <algorithm>
#include <set>
#include <utility>

#include "grammar/limits.h"
#include "grammar/schema_reader.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

const JsonValue& NoValue() {
  static const JsonValue kFalse{.kind = JsonValue::Kind::kBoolean, .boolean = false};
  return kFalse;
}

bool IsFalse(const JsonValue& schema) {
  return schema.is(JsonValue::Kind::kBoolean) && !schema.boolean;
}

}  // namespace

SchemaReader::NameSet SchemaReader::RequiredOf(const PlainSchemas& schemas) {
  NameSet names;
  for (const JsonValue* schema : schemas) {
    const JsonValue* required = schema->Find("required");
    if (required == nullptr) continue;
    for (const JsonValue& name : required->items) {
      names.insert(name.text);
      source_.work()->Add(static_cast<int64_t>(8 + name.text.size() / 8));
    }
  }
  return names;
}

absl::StatusOr<SchemaReader::KeySpec> SchemaReader::KeysOf(const PlainSchemas& schemas) {
  KeySpec keys;
  for (const JsonValue* schema : schemas) {
    const JsonValue* names = source_.Inside(*schema, "propertyNames");
    if (names == nullptr) continue;
    keys.names.push_back(names);
    TUTTI_ASSIGN_OR_RETURN(const Expanded expanded, Expand({{names, false}}));
    if (!expanded.unions.empty()) {
      return source_.Error(*schema, "propertyNames", "unions of names are not served");
    }
    TUTTI_ASSIGN_OR_RETURN(const auto values, Values(expanded.plain));
    if (expanded.never || (TypesOf(expanded.plain) & kStringType) == 0) {
      keys.only.emplace();
    } else if (values && !keys.only) {
      keys.only.emplace();
      for (const JsonValue* value : *values) {
        if (value->is(JsonValue::Kind::kString)) keys.only->push_back(value->text);
      }
    }
    for (const JsonValue* plain : expanded.plain) {
      TUTTI_RETURN_IF_ERROR(AddStringSpec(*plain, &keys.text));
    }
  }
  return keys;
}

absl::StatusOr<std::vector<SchemaReader::KeyPattern>> SchemaReader::PatternsOf(
    const PlainSchemas& schemas) {
  std::vector<KeyPattern> patterns;
  for (const JsonValue* schema : schemas) {
    const JsonValue* map = schema->Find("patternProperties");
    if (map == nullptr) continue;
    for (const JsonValue::Member& member : map->members) {
      TUTTI_RETURN_IF_ERROR(source_.Spend(8 + static_cast<int64_t>(member.name.size() / 8)));
      if (std::any_of(patterns.begin(), patterns.end(),
                      [&](const KeyPattern& one) { return one.text == member.name; })) {
        continue;
      }
      if (patterns.size() == kKeyPatternsMax) {
        return source_.TooMuch(*schema, "patternProperties",
                               Concat("more than ", kKeyPatternsMax, " patterns meet here"));
      }
      TUTTI_ASSIGN_OR_RETURN(auto program,
                             values_.Program(*schema, "patternProperties", member.name, false));
      patterns.push_back({std::move(program), member.name});
    }
  }
  return patterns;
}

absl::StatusOr<std::vector<bool>> SchemaReader::Matched(const std::vector<KeyPattern>& patterns,
                                                        std::string_view name) {
  std::vector<bool> matched;
  for (const KeyPattern& pattern : patterns) {
    TUTTI_ASSIGN_OR_RETURN(const bool matches, values_.Matches(*pattern.program, name));
    matched.push_back(matches);
  }
  return matched;
}

absl::StatusOr<std::vector<std::string>> SchemaReader::NamesOf(const PlainSchemas& schemas,
                                                               const KeySpec& keys) {
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  int64_t units = 0;
  const auto add = [&](const std::string& name) {
    units += static_cast<int64_t>(8 + name.size() / 8);
    if (seen.insert(name).second) names.push_back(name);
  };
  for (const JsonValue* schema : schemas) {
    const JsonValue* properties = schema->Find("properties");
    if (properties == nullptr) continue;
    for (const JsonValue::Member& member : properties->members) add(member.name);
    TUTTI_RETURN_IF_ERROR(source_.Spend(std::exchange(units, 0)));
  }
  for (const JsonValue* schema : schemas) {
    const JsonValue* required = schema->Find("required");
    if (required == nullptr) continue;
    for (const JsonValue& name : required->items) add(name.text);
    TUTTI_RETURN_IF_ERROR(source_.Spend(std::exchange(units, 0)));
  }
  if (keys.only) {
    for (const std::string& name : *keys.only) add(name);
  }
  if (names.size() > kPropertiesMax) {
    return source_.TooMuch(*schemas.front(), "properties",
                           Concat("more than ", kPropertiesMax, " in one place"));
  }
  TUTTI_RETURN_IF_ERROR(source_.Spend(units));
  return names;
}

absl::StatusOr<std::optional<SchemaParts>> SchemaReader::ValueParts(
    const PlainSchemas& schemas, std::optional<std::string_view> name,
    const std::vector<bool>& matched, const std::vector<KeyPattern>& patterns) {
  SchemaParts parts;
  for (const JsonValue* schema : schemas) {
    const JsonValue* properties = name ? schema->Find("properties") : nullptr;
    const int64_t look = properties == nullptr ? 0 : properties->find_cost();
    TUTTI_RETURN_IF_ERROR(source_.Spend(
        4 + (2 * look + schema->look_cost() + 8 * static_cast<int64_t>(patterns.size())) / 4));
    bool said = false;
    const auto add = [&](const JsonValue* part) {
      said |= part != nullptr;
      if (part != nullptr) parts.push_back({part, false});
    };
    if (name) add(source_.Inside(*schema, "properties", *name));
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (matched[i]) add(source_.Inside(*schema, "patternProperties", patterns[i].text));
    }
    if (!said) add(source_.Inside(*schema, "additionalProperties"));
  }
  for (const SchemaPart& part : parts) {
    if (IsFalse(*part.schema)) return std::nullopt;
  }
  return parts;
}

absl::Status SchemaReader::AddDeclared(const PlainSchemas& schemas, const KeySpec& keys,
                                       const std::vector<KeyPattern>& patterns,
                                       ObjectNode* object) {
  TUTTI_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOf(schemas, keys));
  const NameSet required = RequiredOf(schemas);
  for (const std::string& name : names) {
    TUTTI_ASSIGN_OR_RETURN(const std::vector<bool> matched, Matched(patterns, name));
    TUTTI_ASSIGN_OR_RETURN(std::optional<SchemaParts> parts,
                           ValueParts(schemas, name, matched, patterns));
    const JsonValue key = NameValue(name);
    for (const JsonValue* key_schema : keys.names) {
      TUTTI_ASSIGN_OR_RETURN(const bool admits, values_.Admits(*key_schema, key, false));
      if (!admits) parts = std::nullopt;
    }
    if (!parts) parts = SchemaParts{{&NoValue(), false}};
    TUTTI_ASSIGN_OR_RETURN(const RuleId value, RuleFor(*std::move(parts)));
    TUTTI_RETURN_IF_ERROR(source_.Spend(4));
    object->properties.push_back({name, required.contains(name), value});
  }
  return absl::OkStatus();
}

absl::Status SchemaReader::AddOpen(const PlainSchemas& schemas, const KeySpec& keys,
                                   const std::vector<KeyPattern>& patterns, ObjectNode* object) {
  if (keys.only) return absl::OkStatus();
  std::vector<std::vector<bool>> own;  // of the properties
  for (const ObjectNode::Property& property : object->properties) {
    if (patterns.empty()) break;
    TUTTI_ASSIGN_OR_RETURN(own.emplace_back(), Matched(patterns, property.name));
  }
  for (uint32_t set = 0; set < 1u << patterns.size(); ++set) {
    std::vector<bool> matched;
    for (size_t i = 0; i < patterns.size(); ++i) matched.push_back((set >> i & 1) != 0);
    TUTTI_RETURN_IF_ERROR(AddOpenKeys(schemas, keys, patterns, matched, own, object));
  }
  return absl::OkStatus();
}

// The keys that match exactly these of the patterns and have no place of their own.
absl::Status SchemaReader::AddOpenKeys(const PlainSchemas& schemas, const KeySpec& keys,
                                       const std::vector<KeyPattern>& patterns,
                                       const std::vector<bool>& matched,
                                       const std::vector<std::vector<bool>>& own,
                                       ObjectNode* object) {
  TUTTI_ASSIGN_OR_RETURN(std::optional<SchemaParts> parts,
                         ValueParts(schemas, std::nullopt, matched, patterns));
  if (!parts) return absl::OkStatus();
  StringSpec spec = keys.text;
  for (size_t i = 0; i < patterns.size(); ++i) {
    spec.parts.push_back({patterns[i].program, matched[i]});
  }
  std::vector<std::string> excluded;
  for (size_t i = 0; i < object->properties.size(); ++i) {
    const std::string& name = object->properties[i].name;
    TUTTI_RETURN_IF_ERROR(source_.Spend(static_cast<int64_t>(4 + name.size() / 8)));
    if (patterns.empty() || own[i] == matched) excluded.push_back(name);
  }
  const JsonValue& where = schemas.empty() ? source_.root() : *schemas.front();
  if (!excluded.empty()) {
    absl::StatusOr<RegexProgram> names = RegexProgram::OfNames(std::move(excluded), source_.work());
    if (!names.ok()) return source_.TooMuch(where, "properties", names.status().message());
    kept_.push_back(std::make_shared<const RegexProgram>(*std::move(names)));
    spec.parts.push_back({kept_.back(), /*matches=*/false, /*is_names=*/true});
  }
  TUTTI_ASSIGN_OR_RETURN(const auto string, AddString(where, "properties", std::move(spec)));
  if (!string) return absl::OkStatus();
  const auto [found, added] = string_rules_.try_emplace(*string, 0);
  if (added) {
    found->second =
        graph_.AddRule(graph_.AddText("\"", graph_.Add({NodeKind::kString, return_, *string})));
  }
  TUTTI_ASSIGN_OR_RETURN(const RuleId value, RuleFor(*std::move(parts)));
  object->open.push_back({found->second, value, 0});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<NodeId>> SchemaReader::BuildObject(const PlainSchemas& schemas) {
  ObjectNode object;
  const int64_t min = Least(schemas, "minProperties");
  const int64_t max = Most(schemas, "maxProperties");
  if (min > max) return std::nullopt;
  object.min = static_cast<uint32_t>(min);
  object.max = max > kEndless - 1 ? kEndless : static_cast<uint32_t>(max);
  TUTTI_ASSIGN_OR_RETURN(const KeySpec keys, KeysOf(schemas));
  TUTTI_ASSIGN_OR_RETURN(const std::vector<KeyPattern> patterns, PatternsOf(schemas));
  TUTTI_RETURN_IF_ERROR(AddDeclared(schemas, keys, patterns, &object));
  TUTTI_RETURN_IF_ERROR(AddOpen(schemas, keys, patterns, &object));
  const auto required =
      std::count_if(object.properties.begin(), object.properties.end(),
                    [](const ObjectNode::Property& property) { return property.required; });
  // An open key may come twice, and would be counted twice; one alone is like no other.
  if (!object.open.empty() && min > 1 && min > required + 1) {
    for (const JsonValue* schema : schemas) {
      if (source_.Count(*schema, "minProperties").value_or(0) != min) continue;
      return source_.Error(*schema, "minProperties",
                           "is not served beyond one more than what is required, where other "
                           "properties than those declared are allowed");
    }
  }
  return AddObject(std::move(object));
}

NodeId SchemaReader::AddObject(ObjectNode object) {
  const auto index = static_cast<uint32_t>(graph_.objects.size());
  object.close_empty = graph_.AddText("}", return_);
  object.close = Gap(object.close_empty);
  object.object = graph_.Add({NodeKind::kObject, 0, index});
  const NodeId value = graph_.Add({NodeKind::kValue, object.object, index});
  object.key = graph_.Add({NodeKind::kKey, graph_.AddText(":", Gap(value)), index});
  object.member = graph_.Add({NodeKind::kMember, object.key, index});
  object.comma = Gap(graph_.AddText(",", Gap(object.member)));
  for (ObjectNode::OpenKeys& open : object.open) {
    const NodeId call = graph_.Add({NodeKind::kCall, object.object, open.value});
    open.colon = graph_.AddText(":", Gap(call));
  }
  const NodeId entry = graph_.AddText("{", Gap(object.object));
  graph_.objects.push_back(std::move(object));
  return entry;
}

}  // namespace tutti::grammar
