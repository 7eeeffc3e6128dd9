#include "text/text_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"

namespace tutti::text {

using nlohmann::json;

absl::Status RefuseField(std::string_view field, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(Absl(field), ": ", Absl(why)));
}

std::string ShownJson(const json& value) {
  constexpr size_t kShownMax = 60;
  std::string text = value.is_structured()
                         ? std::string(value.type_name())
                         : value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShownMax) {
    text.resize(kShownMax);
    text += "...";
  }
  return text;
}

absl::StatusOr<TextFields> TextFields::Open(const json& value, std::string path,
                                            std::initializer_list<std::string_view> known) {
  TUTTI_ASSIGN_OR_RETURN(TextFields fields, OpenAny(value, std::move(path)));
  for (const auto& [name, member] : value.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return RefuseField(fields.Path(name), "unknown field");
    }
  }
  return fields;
}

absl::StatusOr<TextFields> TextFields::OpenAny(const json& value, std::string path) {
  if (!value.is_object()) {
    return RefuseField(path, absl::StrCat("not an object but ", ShownJson(value)));
  }
  return TextFields(value, std::move(path));
}

std::string TextFields::Path(std::string_view name) const {
  return path_.empty() ? std::string(name) : absl::StrCat(path_, ".", Absl(name));
}

const json& TextFields::Get(std::string_view name) const {
  static const json kNull;
  const auto found = value_->find(std::string(name));
  return found == value_->end() ? kNull : *found;
}

absl::StatusOr<bool> TextFields::Bool(std::string_view name, bool absent) const {
  const json& value = Get(name);
  if (value.is_null()) return absent;
  if (!value.is_boolean()) {
    return RefuseField(Path(name), absl::StrCat("not a bool but ", ShownJson(value)));
  }
  return value.get<bool>();
}

absl::StatusOr<std::string> TextFields::String(std::string_view name) const {
  const json& value = Get(name);
  if (!value.is_string()) {
    return RefuseField(Path(name), absl::StrCat("not a string but ", ShownJson(value)));
  }
  return value.get<std::string>();
}

absl::Status TextFields::MustBe(std::string_view name, std::initializer_list<json> harmless) const {
  const json& value = Get(name);
  if (value.is_null() || std::find(harmless.begin(), harmless.end(), value) != harmless.end()) {
    return absl::OkStatus();
  }
  return RefuseField(Path(name), absl::StrCat("value ", ShownJson(value), " is not supported"));
}

}  // namespace tutti::text
