#include "gateway/field_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gateway/limits.h"

namespace tutti::gateway {
namespace {

// Whole numbers, however they are written.
std::optional<int64_t> WholeNumber(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::trunc(number) != number || std::abs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

std::optional<std::vector<int32_t>> IdsOf(const Json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& value : list) {
    const std::optional<int64_t> id = WholeNumber(value);
    if (!id || *id < std::numeric_limits<int32_t>::min() ||
        *id > std::numeric_limits<int32_t>::max()) {
      return std::nullopt;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

const Json* FieldReader::Find(std::string_view name) {
  return Look(name, {.kind = FieldUse::Kind::kAny});
}

const Json* FieldReader::Look(std::string_view name, FieldUse use) {
  known_.emplace(name);
  const auto found = object_.find(std::string(name));
  const Json* const value = found == object_.end() || found->is_null() ? nullptr : &*found;
  FieldLog::Tell(PathOf(name), std::move(use), value);
  return value;
}

void FieldReader::Fail(std::string_view name, std::string_view what) {
  if (error_.has_value()) return;
  const std::string path = PathOf(name);
  error_ = BadRequest(path, path + " " + std::string(what));
}

void FieldReader::Fail(const ApiError& error) {
  if (!error_.has_value()) error_ = error;
}

std::optional<bool> FieldReader::Bool(std::string_view name) {
  const Json* value = Look(name, {.kind = FieldUse::Kind::kBool});
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "is neither true nor false");
  return std::nullopt;
}

std::optional<int64_t> FieldReader::Integer(std::string_view name, int64_t min, int64_t max) {
  const Json* value = Look(name, {.kind = FieldUse::Kind::kInteger, .min = min, .max = max});
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = WholeNumber(*value);
  if (!number.has_value()) {
    Fail(name, "is not a whole number");
  } else if (*number < min || *number > max) {
    Fail(name, absl::StrCat("is ", *number, ", it must lie in [", min, ", ", max, "]"));
    return std::nullopt;
  }
  return number;
}

std::optional<float> FieldReader::Number(std::string_view name) {
  const Json* value = Look(name, {.kind = FieldUse::Kind::kNumber});
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return static_cast<float>(value->get<double>());
  Fail(name, "is not a number");
  return std::nullopt;
}

std::optional<std::string> FieldReader::Text(std::string_view name) {
  const Json* value = Look(name, {.kind = FieldUse::Kind::kText});
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(name, "is not a text");
  return std::nullopt;
}

std::optional<std::vector<int32_t>> FieldReader::Ids(std::string_view name) {
  const Json* value = Look(name, {.kind = FieldUse::Kind::kIds});
  if (value == nullptr) return std::nullopt;
  auto ids = IdsOf(*value);
  if (!ids.has_value()) Fail(name, "is not a list of token ids");
  return ids;
}

std::optional<std::vector<std::string>> FieldReader::Texts(std::string_view name) {
  const Json* value = Look(name, {.kind = FieldUse::Kind::kTexts});
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return std::vector<std::string>{value->get<std::string>()};
  std::vector<std::string> texts;
  bool right = value->is_array();
  for (size_t i = 0; right && i < value->size(); ++i) {
    right = (*value)[i].is_string();
    if (right) texts.push_back((*value)[i].get<std::string>());
  }
  if (right) return texts;
  Fail(name, "is neither a text nor a list of texts");
  return std::nullopt;
}

void FieldReader::Refuse(const UnservedField& field) {
  const bool is_ignored = field.harmless == "*";
  const Json* value =
      Look(field.name, {.kind = is_ignored ? FieldUse::Kind::kIgnored : FieldUse::Kind::kRefused,
                        .harmless = std::string(field.harmless),
                        .instead = std::string(field.instead)});
  if (value == nullptr || is_ignored) return;
  if ((value->is_array() || value->is_object() || value->is_string()) && value->empty()) return;
  if (value->is_string() && value->get_ref<const std::string&>().empty()) return;
  if (*value == Json::parse(field.harmless.begin(), field.harmless.end(), nullptr, false)) return;
  if (!field.instead.empty()) {
    return Fail(field.name, absl::StrCat("is not served here; say ", std::string(field.instead)));
  }
  Fail(field.name, field.harmless == "null"
                       ? std::string("is not served here yet; leave it out")
                       : absl::StrCat("is not served here yet; leave it out, or say ",
                                      std::string(field.harmless)));
}

void FieldReader::Ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) Look(name, {.kind = FieldUse::Kind::kIgnored});
}

void FieldReader::RefuseOthers() {
  FieldLog::TellClosed(path_.substr(0, path_.size() - (path_.empty() ? 0 : 1)));
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || value.is_null()) continue;
    Fail(Shortened(name, kShownNameBytesMax), "is no field that this service knows");
  }
}

}  // namespace tutti::gateway
