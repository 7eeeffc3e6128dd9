#include "gateway/parse/xml_parameters.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"
#include "gateway/parse/call_grammar.h"
#include "gateway/written_json.h"

namespace tutti::gateway {
namespace {

// A value as it stands, with a line end before it, in which nothing ends it. That line end is not
// written by itself: together with it the value could begin another parameter.
constexpr char kRawText[] = R"((%without "</parameter>" "</function>" "\n<parameter="))";
constexpr char kAnyName[] = "[A-Za-z_] [A-Za-z0-9_.-]{0,63}";
constexpr size_t kUnknownParametersMax = 16;

// What an object's schema says of all of its properties together.
constexpr std::string_view kOfTheWhole[] = {"allOf",
                                            "anyOf",
                                            "oneOf",
                                            "not",
                                            "if",
                                            "enum",
                                            "const",
                                            "minProperties",
                                            "maxProperties",
                                            "patternProperties",
                                            "propertyNames",
                                            "dependencies",
                                            "dependentRequired",
                                            "dependentSchemas",
                                            "$ref",
                                            "$dynamicRef"};
// Keywords that say nothing of which values there may be.
constexpr std::string_view kNotes[] = {"title",    "description", "default",  "examples", "example",
                                       "$comment", "deprecated",  "readOnly", "writeOnly"};

template <typename Names>
bool IsAmong(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

const Json* Member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

bool IsText(const Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

bool HasPlaceFor(std::string_view name) {
  return !name.empty() && name.size() <= kFunctionNameBytesMax &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '>' || c == '<' || static_cast<unsigned char>(c) < 0x20;
         });
}

std::string Parameter(std::string_view name, std::string_view value) {
  const bool is_raw = value == kRawText;
  const std::string head = std::string("<parameter=").append(name).append(is_raw ? ">" : ">\n");
  return absl::StrCat(EbnfString(head), " (", absl::string_view(value.data(), value.size()), ") ",
                      EbnfString("\n</parameter>\n"));
}

class SchemaOfParameters {
 public:
  SchemaOfParameters(const Json& schema, std::string_view written, const Parameters& types,
                     size_t* definitions_left)
      : schema_(schema), written_(written), types_(types), bytes_left_(*definitions_left) {}

  std::variant<XmlParameters, SchemaProblem> Read() {
    if (auto problem = CheckWhole()) return *std::move(problem);
    const Json* const properties = Member(schema_, "properties");
    for (const auto& [name, value] : MembersAsWritten(MemberAsWritten(written_, "properties"))) {
      if (properties == nullptr) break;
      const auto found = properties->find(name);
      if (found == properties->end()) continue;
      const Json& property = *found;
      const bool required = required_.erase(name) > 0;
      if (property == false && !required) continue;
      if (!HasPlaceFor(name)) return SchemaProblem{"properties", "has a name with signs of markup"};
      if (auto problem = AddProperty(name, property, value, required)) return *std::move(problem);
    }
    if (!required_.empty()) {
      return SchemaProblem{"required", "names what properties do not: " +
                                           Shortened(*required_.begin(), kShownNameBytesMax)};
    }
    if (found_.ebnf.empty()) found_.ebnf = "\"\"";
    return std::move(found_);
  }

 private:
  struct Definitions {
    std::string text;            // as members that follow others
    std::string that_leads_out;  // the name of one of them; empty: none does
  };

  std::optional<SchemaProblem> CheckWhole() {
    for (const auto& [keyword, value] : schema_.items()) {
      if (IsAmong(kOfTheWhole, keyword)) {
        return SchemaProblem{keyword,
                             "is not served in this model's form of calls, which writes "
                             "parameters one by one"};
      }
    }
    const Json* const properties = Member(schema_, "properties");
    if (properties != nullptr && !properties->is_object()) {
      return SchemaProblem{"properties", "is not an object"};
    }
    const Json* const required = Member(schema_, "required");
    if (required == nullptr) return std::nullopt;
    const bool is_list =
        required->is_array() && std::all_of(required->begin(), required->end(),
                                            [](const Json& name) { return name.is_string(); });
    if (!is_list) return SchemaProblem{"required", "is not a list of names"};
    for (const Json& name : *required) required_.insert(name.get<std::string>());
    return std::nullopt;
  }

  std::optional<SchemaProblem> AddProperty(const std::string& name, const Json& property,
                                           std::string_view written, bool required) {
    std::string value;
    if (IsReadAsText(name) && IsPlainText(property, 0)) {
      value = kRawText;
    } else if (auto listed = ListedTexts(name, property)) {
      value = *std::move(listed);
    } else {
      bool refers = false;
      if (auto problem = CheckReferences(name, property, &refers)) return problem;
      value = EbnfJson(WithDefinitions(property, written, refers));
      found_.as_json.insert(name);
    }
    absl::StrAppend(&found_.ebnf, found_.ebnf.empty() ? "" : " ", required ? "" : "(",
                    Parameter(name, value), required ? "" : ")?");
    return std::nullopt;
  }

  // The parser takes whatever stands there for a text, or for null.
  bool IsReadAsText(const std::string& name) const {
    const auto found = types_.find(name);
    if (found == types_.end()) return false;
    const ValueTypes& types = found->second;
    return types.values.empty() && types.Allows(ValueTypes::Type::kText) &&
           types.types.size() == (types.Allows(ValueTypes::Type::kNull) ? 2 : 1);
  }

  // A text of any kind, or null.
  bool IsPlainText(const Json& property, int depth) const {
    if (!property.is_object() || depth > kJsonDepthMax) return false;
    bool said = false;
    for (const auto& [keyword, value] : property.items()) {
      if (IsAmong(kNotes, keyword)) continue;
      if (said) return false;
      said = true;
      if (keyword == "type") {
        if (!IsTextType(value)) return false;
      } else if (keyword == "anyOf" || keyword == "oneOf") {
        if (!AreTexts(value, depth)) return false;
      } else if (keyword == "$ref") {
        const Json* const target = Target(value);
        if (target == nullptr || !IsPlainText(*target, depth + 1)) return false;
      } else {
        return false;
      }
    }
    return said;
  }

  static bool IsTextType(const Json& type) {
    if (!type.is_array()) return IsText(type, "string");
    return std::count(type.begin(), type.end(), "string") == 1 &&
           std::all_of(type.begin(), type.end(), [](const Json& one) {
             return IsText(one, "string") || IsText(one, "null");
           });
  }

  // One text, others null.
  bool AreTexts(const Json& branches, int depth) const {
    if (!branches.is_array()) return false;
    int texts = 0;
    for (const Json& branch : branches) {
      const Json* const type = branch.is_object() ? Member(branch, "type") : nullptr;
      if (type != nullptr && branch.size() == 1 && IsText(*type, "null")) continue;
      if (++texts > 1 || !IsPlainText(branch, depth + 1)) return false;
    }
    return texts == 1;
  }

  const Json* Target(const Json& ref) const {
    if (!ref.is_string()) return nullptr;
    const auto& text = ref.get_ref<const std::string&>();
    for (const char* const place : {"$defs", "definitions"}) {
      const std::string before = absl::StrCat("#/", place, "/");
      const Json* const all = Member(schema_, place);
      if (!text.starts_with(before) || all == nullptr || !all->is_object()) continue;
      return Member(*all, text.c_str() + before.size());
    }
    return nullptr;
  }

  // The texts of enum or const, where each is read back as itself.
  std::optional<std::string> ListedTexts(const std::string& name, const Json& property) const {
    const auto types = types_.find(name);
    if (types == types_.end() || !property.is_object()) return std::nullopt;
    Json values;
    for (const auto& [keyword, value] : property.items()) {
      if (keyword == "enum") {
        values = value;
      } else if (keyword == "const") {
        values = Json::array({value});
      } else if (!IsAmong(kNotes, keyword) && !(keyword == "type" && IsText(value, "string"))) {
        return std::nullopt;
      }
    }
    std::string all;
    if (!values.is_array() || values.empty() || values.size() > kRawListedValuesMax) {
      return std::nullopt;
    }
    for (const Json& value : values) {
      if (!value.is_string()) return std::nullopt;
      const auto& text = value.get_ref<const std::string&>();
      if (!HasPlaceFor(text) || JsonOfValue(text, types->second) != value.dump()) {
        return std::nullopt;
      }
      absl::StrAppend(&all, all.empty() ? "" : " | ", EbnfString(text));
    }
    return all;
  }

  // The property's schema is to stand by itself, with the definitions of the whole.
  std::optional<SchemaProblem> CheckReferences(const std::string& name, const Json& property,
                                               bool* refers) {
    const std::string path = absl::StrCat("properties.", Shortened(name, kShownNameBytesMax));
    if (LeadsOut(property, refers)) return SchemaProblem{path, kLeadsOut};
    if (!*refers) return std::nullopt;
    if (!definitions_.has_value()) definitions_ = ReadDefinitions();
    if (!definitions_->that_leads_out.empty()) {
      return SchemaProblem{definitions_->that_leads_out, kLeadsOut};
    }
    if (definitions_->text.size() <= bytes_left_) return std::nullopt;
    return SchemaProblem{path,
                         "refers to definitions that are too large to stand with each "
                         "parameter, as this model's form of calls needs it"};
  }

  Definitions ReadDefinitions() const {
    Definitions definitions;
    for (const auto& [keyword, value] : MembersAsWritten(written_)) {
      if (keyword != "$defs" && keyword != "definitions" && keyword != "$schema") continue;
      bool refers = false;
      const Json* const all = Member(schema_, keyword.c_str());
      if (keyword != "$schema" && all != nullptr && LeadsOut(*all, &refers)) {
        definitions.that_leads_out = keyword;
      }
      definitions.text.append(",\"").append(keyword).append("\":").append(value);
    }
    return definitions;
  }

  static bool LeadsOut(const Json& value, bool* refers) {
    if (value.is_object()) {
      const Json* const ref = Member(value, "$ref");
      if (ref != nullptr && ref->is_string()) {
        *refers = true;
        const auto& text = ref->get_ref<const std::string&>();
        if (!text.starts_with("#/$defs/") && !text.starts_with("#/definitions/")) return true;
      }
    }
    return value.is_structured() && std::any_of(value.begin(), value.end(), [&](const Json& part) {
             return LeadsOut(part, refers);
           });
  }

  std::string WithDefinitions(const Json& property, std::string_view written, bool refers) {
    if (property == true) return "{}";
    if (!refers) return std::string(written);
    bytes_left_ -= definitions_->text.size();
    std::string all = "{\"allOf\":[";
    return all.append(written).append("]").append(definitions_->text).append("}");
  }

  static constexpr char kLeadsOut[] =
      "has a $ref that leads out of $defs, which is not served in this model's form of calls, "
      "which writes parameters one by one";

  const Json& schema_;
  const std::string_view written_;
  const Parameters& types_;
  std::set<std::string, std::less<>> required_;
  size_t& bytes_left_;                      // of definitions
  std::optional<Definitions> definitions_;  // when a property has referred to one
  XmlParameters found_;
};

}  // namespace

std::variant<XmlParameters, SchemaProblem> ParametersBySchema(const Json& schema,
                                                              std::string_view written,
                                                              const Parameters& types,
                                                              size_t* definitions_left) {
  return SchemaOfParameters(schema, written, types, definitions_left).Read();
}

std::string AnyParameters(const Parameters& types) {
  std::string any;
  size_t known = 0;
  for (const auto& [name, type] : types) {
    if (!HasPlaceFor(name)) continue;
    ++known;
    absl::StrAppend(&any, any.empty() ? "" : " | ", Parameter(name, kRawText));
  }
  if (known > 0) return absl::StrCat("(", any, "){0,", known, "}");
  return absl::StrCat("(\"<parameter=\" ", kAnyName, " \">\" ", kRawText,
                      " \"\\n</parameter>\\n\"){0,", kUnknownParametersMax, "}");
}

}  // namespace tutti::gateway
