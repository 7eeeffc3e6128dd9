// Values of JSON.
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/value.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

using nlohmann::ordered_json;

absl::Status JsonTooDeep() {
  return absl::InvalidArgumentError(
      absl::StrCat("a list or dict nests deeper than ", kTextJsonDepthMax));
}

absl::Status Bad(std::string_view path, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(path), ": ", Absl(why)));
}

absl::StatusOr<Text> TextFromJson(const std::string& text, std::string_view path, bool from_user) {
  if (const auto invalid = FindInvalidUtf8(text); invalid.has_value()) {
    return Bad(path, absl::StrCat("not valid UTF-8 at byte ", *invalid));
  }
  return Text(text, from_user);
}

absl::StatusOr<Value> Convert(const ordered_json& json, const std::string& path, bool from_user,
                              int depth);

absl::StatusOr<Value> ConvertArray(const ordered_json& json, const std::string& path,
                                   bool from_user, int depth) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (size_t i = 0; i < json.size(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(Value item,
                           Convert(json[i], absl::StrCat(path, "[", i, "]"), from_user, depth + 1));
    items.push_back(std::move(item));
  }
  return Value::MakeList(std::move(items));
}

absl::StatusOr<Value> ConvertObject(const ordered_json& json, const std::string& path,
                                    bool from_user, int depth) {
  std::vector<std::pair<Value, Value>> items;
  items.reserve(json.size());
  for (auto member = json.begin(); member != json.end(); ++member) {
    TUTTI_ASSIGN_OR_RETURN(Text key, TextFromJson(member.key(), path, from_user));
    TUTTI_ASSIGN_OR_RETURN(
        Value value,
        Convert(member.value(), absl::StrCat(path, ".", member.key()), from_user, depth + 1));
    items.emplace_back(Value::Str(std::move(key)), std::move(value));
  }
  return Value::MakeDict(std::move(items));
}

absl::StatusOr<Value> Convert(const ordered_json& json, const std::string& path, bool from_user,
                              int depth) {
  if (depth > kTextJsonDepthMax) return Annotate(JsonTooDeep(), path);
  switch (json.type()) {
    case ordered_json::value_t::null:
      return Value();
    case ordered_json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return Value::Int(json.get<int64_t>(), from_user);
    case ordered_json::value_t::number_unsigned: {
      return IntegerFromDigits(absl::StrCat(json.get<uint64_t>()), from_user);
    }
    case ordered_json::value_t::binary: {
      const auto& bytes = json.get_binary();
      return IntegerFromDigits(std::string(bytes.begin(), bytes.end()), from_user);
    }
    case ordered_json::value_t::number_float:
      return Value::Float(json.get<double>(), from_user);
    case ordered_json::value_t::string: {
      TUTTI_ASSIGN_OR_RETURN(Text text,
                             TextFromJson(json.get_ref<const std::string&>(), path, from_user));
      return Value::Str(std::move(text));
    }
    case ordered_json::value_t::array:
      return ConvertArray(json, path, from_user, depth);
    case ordered_json::value_t::object:
      return ConvertObject(json, path, from_user, depth);
    default:
      return Bad(path, "not a JSON value");
  }
}

}  // namespace

absl::StatusOr<Value> Value::FromJson(const ordered_json& json, std::string_view path,
                                      bool from_user) {
  return Convert(json, std::string(path), from_user, 1);
}

}  // namespace tutti::text::jinja
