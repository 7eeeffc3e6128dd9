#include "grammar/schema_source.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "grammar/limits.h"
#include "grammar/text_cursor.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A fragment's %XX as bytes, then ~1 and ~0 as / and ~.
std::string Unescape(std::string_view token) {
  std::string out;
  for (TextCursor cursor(token); !cursor.AtEnd();) {
    if (cursor.Take("~1")) {
      out += '/';
    } else if (cursor.Take("~0")) {
      out += '~';
    } else {
      out += cursor.Peek();
      cursor.set_at(cursor.at() + 1);
    }
  }
  return out;
}

std::string DecodePercent(std::string_view text) {
  std::string out;
  for (TextCursor cursor(text); !cursor.AtEnd();) {
    const size_t at = cursor.at();
    if (cursor.Take("%")) {
      const uint32_t value = cursor.TakeHex(2);
      if (value != UINT32_MAX) {
        out += static_cast<char>(value);
        continue;
      }
      cursor.set_at(at);
    }
    out += cursor.Peek();
    cursor.set_at(at + 1);
  }
  return out;
}

std::string PointerToken(std::string_view name) {
  std::string out;
  for (const char c : WholeCharacters(name, 200)) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

uint8_t TypeOf(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return kNullType;
    case JsonValue::Kind::kBoolean:
      return kBooleanType;
    case JsonValue::Kind::kNumber:
      return ToDecimal(value.text).is_integer() ? kIntegerType : kFractionType;
    case JsonValue::Kind::kString:
      return kStringType;
    case JsonValue::Kind::kArray:
      return kArrayType;
    case JsonValue::Kind::kObject:
      return kObjectType;
  }
  return 0;
}

absl::StatusOr<SchemaSource> SchemaSource::Parse(std::string_view text, BuildWork* work) {
  SchemaSource source(work);
  TUTTI_ASSIGN_OR_RETURN(source.root_, ParseJsonTree(text, work));
  const JsonValue* draft = source.root_.Find("$schema");
  if (draft == nullptr) return source;
  const std::string_view name = draft->text;
  source.has_prefix_items_ = Contains(name, "/2020-12/") || Contains(name, "org/schema");
  if (Contains(name, "/draft-07/") || Contains(name, "/draft-06/") ||
      Contains(name, "/draft-04/")) {
    source.draft7_ = true;
  } else if (Contains(name, "/2020-12/")) {
    source.arrays_of_items_ = false;
  } else if (!Contains(name, "/2019-09/") && !Contains(name, "org/schema")) {
    return absl::InvalidArgumentError(
        "/$schema: a draft that is not served; drafts 7 and 2020-12 are, and of older ones what "
        "they have in common with 7");
  }
  return source;
}

const JsonValue* SchemaSource::Inside(const JsonValue& schema, std::string_view keyword) {
  const JsonValue::Member* member = schema.FindMember(keyword);
  if (member == nullptr) return nullptr;
  whereabouts_.try_emplace(&member->value, Whereabouts{&schema, member->name, {}, {}});
  return &member->value;
}

const JsonValue* SchemaSource::Inside(const JsonValue& schema, std::string_view keyword,
                                      size_t index) {
  const JsonValue* list = schema.Find(keyword);
  if (list == nullptr || index >= list->items.size()) return nullptr;
  whereabouts_.try_emplace(&list->items[index], Whereabouts{&schema, keyword, index, {}});
  return &list->items[index];
}

const JsonValue* SchemaSource::Inside(const JsonValue& schema, std::string_view keyword,
                                      std::string_view name) {
  const JsonValue* map = schema.Find(keyword);
  const JsonValue::Member* member = map == nullptr ? nullptr : map->FindMember(name);
  if (member == nullptr) return nullptr;
  whereabouts_.try_emplace(&member->value, Whereabouts{&schema, keyword, {}, member->name});
  return &member->value;
}

std::string SchemaSource::PathOf(const JsonValue& schema) const {
  std::string path;
  const JsonValue* at = &schema;
  for (int depth = 0; depth < kSourceDepthMax; ++depth) {
    const auto found = whereabouts_.find(at);
    if (found == whereabouts_.end()) break;
    std::string token;
    if (!found->second.keyword.empty()) {
      token += Concat("/", PointerToken(found->second.keyword));
    }
    if (found->second.index) token += Concat("/", *found->second.index);
    if (found->second.name) token += Concat("/", PointerToken(*found->second.name));
    path = token + path;
    at = found->second.parent;
  }
  return path;
}

absl::Status SchemaSource::Error(const JsonValue& schema, std::string_view keyword,
                                 const TextPiece& what) const {
  return absl::InvalidArgumentError(
      Concat(PathOf(schema), keyword.empty() ? "" : "/", keyword, ": ", what.text()));
}

absl::Status SchemaSource::TooMuch(const JsonValue& schema, std::string_view keyword,
                                   const TextPiece& what) const {
  return absl::ResourceExhaustedError(
      Concat(PathOf(schema), keyword.empty() ? "" : "/", keyword, ": ", what.text()));
}

uint8_t SchemaSource::Types(const JsonValue& schema) const {
  const JsonValue* type = schema.Find("type");
  if (type == nullptr) return kAllTypes;
  static const std::map<std::string, uint8_t, std::less<>> kTypes = {
      {"array", kArrayType},  {"boolean", kBooleanType}, {"integer", kIntegerType},
      {"null", kNullType},    {"number", kNumberTypes},  {"object", kObjectType},
      {"string", kStringType}};
  const auto of = [](const JsonValue& name) {
    const auto found = kTypes.find(name.text);
    return found == kTypes.end() ? uint8_t{0} : found->second;
  };
  if (!type->is(JsonValue::Kind::kArray)) return of(*type);
  uint8_t types = 0;
  for (const JsonValue& name : type->items) types |= of(name);
  return types;
}

std::optional<int64_t> SchemaSource::Count(const JsonValue& schema,
                                           std::string_view keyword) const {
  const std::optional<Decimal> number = Number(schema, keyword);
  if (!number || !number->is_integer() || number->negative) return std::nullopt;
  constexpr int64_t kMost = 4'000'000'000;  // as good as without bound, and below kEndless
  static const Decimal kMostDecimal = ToDecimal(Concat(kMost));
  if (Compare(*number, kMostDecimal) > 0) return kMost;
  int64_t count = 0;
  const size_t zeros = number->digits.empty() ? 0 : static_cast<size_t>(number->exponent);
  if (!number->digits.empty() && !ReadNumber(number->digits + std::string(zeros, '0'), &count)) {
    return std::nullopt;
  }
  return count;
}

std::optional<Decimal> SchemaSource::Number(const JsonValue& schema,
                                            std::string_view keyword) const {
  const JsonValue* value = schema.Find(keyword);
  if (value == nullptr || !value->is(JsonValue::Kind::kNumber)) return std::nullopt;
  return ToDecimal(value->text);
}

void SchemaSource::FindNames(const JsonValue& schema) {
  for (const JsonValue::Member& member : schema.members) {
    const std::string& name = member.name;
    const JsonValue& value = member.value;
    if (name == "enum" || name == "const" || name == "default" || name == "examples") continue;
    if (name == "$anchor" && value.is(JsonValue::Kind::kString)) {
      anchors_.try_emplace(value.text, &schema);
    }
    if (name == "$id" && value.is(JsonValue::Kind::kString) && &schema != &root_) {
      has_addresses_ |= !value.text.starts_with('#');
      if (value.text.starts_with('#')) anchors_.try_emplace(value.text.substr(1), &schema);
    }
    const bool map = name == "properties" || name == "patternProperties" || name == "$defs" ||
                     name == "definitions" || name == "dependentSchemas";
    if (!map) FindNames(value);
    for (const JsonValue::Member& inside : value.members) {
      if (map) FindNames(inside.value);
    }
  }
  for (const JsonValue& item : schema.items) FindNames(item);
}

absl::StatusOr<const JsonValue*> SchemaSource::Resolve(const JsonValue& schema) {
  TUTTI_RETURN_IF_ERROR(Spend(2));
  const auto known = referred_.find(&schema);
  if (known != referred_.end()) return known->second;
  TUTTI_ASSIGN_OR_RETURN(const JsonValue* found, FindReferred(schema));
  referred_.emplace(&schema, found);
  return found;
}

absl::StatusOr<const JsonValue*> SchemaSource::FindReferred(const JsonValue& schema) {
  const std::string& reference = schema.Find("$ref")->text;
  TUTTI_RETURN_IF_ERROR(Spend(static_cast<int64_t>(8 + reference.size() / 2)));
  if (!reference.starts_with('#')) {
    return Error(schema, "$ref", "only references into the schema itself are served, # and #/…");
  }
  if (!searched_) {
    TUTTI_RETURN_IF_ERROR(Spend(root_.weight * int64_t{2}));
    FindNames(root_);
    searched_ = true;
  }
  if (has_addresses_) {
    return Error(schema, "$ref", "is not served where parts of the schema have an $id");
  }
  const std::string fragment = DecodePercent(std::string_view(reference).substr(1));
  if (fragment.empty()) return &root_;
  if (fragment.front() != '/') {
    const auto found = anchors_.find(fragment);
    if (found == anchors_.end()) return Error(schema, "$ref", "names nothing that is there");
    return found->second;
  }
  const JsonValue* at = &root_;
  for (size_t begin = 1; begin <= fragment.size();) {
    const size_t end = std::min(fragment.find('/', begin), fragment.size());
    const std::string token = Unescape(std::string_view(fragment).substr(begin, end - begin));
    begin = end + 1;
    TUTTI_RETURN_IF_ERROR(Spend(8 + at->look_cost()));
    const JsonValue* next = nullptr;
    size_t index = 0;
    if (const JsonValue::Member* member = at->FindMember(token)) {
      next = &member->value;
      whereabouts_.try_emplace(next, Whereabouts{at, member->name, {}, {}});
    } else if (ReadNumber(token, &index) && index < at->items.size()) {
      next = &at->items[index];
      whereabouts_.try_emplace(next, Whereabouts{at, "", index, {}});
    }
    if (next == nullptr) return Error(schema, "$ref", "names nothing that is there");
    at = next;
  }
  return at;
}

}  // namespace tutti::grammar
