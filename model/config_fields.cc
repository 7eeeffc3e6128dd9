#include "model/config_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/json_document.h"

namespace tutti::model {
namespace {

using nlohmann::json;

std::string Shown(const json& value) {
  // Long or nested values are named by type; the reader of the error has the file.
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  return value.dump();
}

std::string WrongType(const std::string& name, const char* wanted, const json& value) {
  return absl::StrCat(name, " must be ", wanted, ", is ", Shown(value));
}

// Whether `value` is an integer in [least, most]. Integers beyond int64 are held as unsigned or as
// floats.
bool IntIn(const json& value, int64_t least, int64_t most) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(INT64_MAX) && static_cast<int64_t>(number) >= least &&
           static_cast<int64_t>(number) <= most;
  }
  return value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

}  // namespace

ConfigFields::ConfigFields(const json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (!object_.is_object()) Invalid("not a JSON object");
}

void ConfigFields::Invalid(const std::string& what) {
  Adopt(absl::InvalidArgumentError(absl::StrCat(prefix_, ": ", what)));
}

void ConfigFields::Unsupported(const std::string& what) {
  Adopt(absl::UnimplementedError(absl::StrCat(prefix_, ": ", what)));
}

void ConfigFields::Adopt(const absl::Status& status) { status_.Update(status); }

const json* ConfigFields::Find(const std::string& name) const {
  if (!object_.is_object()) return nullptr;
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

const json* ConfigFields::Require(const std::string& name) {
  const json* value = Find(name);
  if (value == nullptr) Invalid(absl::StrCat(name, " is missing"));
  return value;
}

bool ConfigFields::Has(const std::string& name) const { return Find(name) != nullptr; }

int64_t ConfigFields::Int(const std::string& name, int64_t least, int64_t most) {
  const json* value = Require(name);
  return value == nullptr ? least : IntOr(name, least, most, least);
}

int64_t ConfigFields::IntOr(const std::string& name, int64_t least, int64_t most,
                            int64_t otherwise) {
  const json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer()) {
    Invalid(WrongType(name, "an integer", *value));
    return least;
  }
  if (!IntIn(*value, least, most)) {
    Invalid(absl::StrCat(name, " is ", Shown(*value), ", must be in [", least, ", ", most, "]"));
    return least;
  }
  return value->get<int64_t>();
}

double ConfigFields::Number(const std::string& name, double least, double most) {
  const json* value = Require(name);
  return value == nullptr ? least : NumberOr(name, least, most, least);
}

double ConfigFields::NumberOr(const std::string& name, double least, double most,
                              double otherwise) {
  const json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    Invalid(WrongType(name, "a number", *value));
    return least;
  }
  const double number = value->get<double>();
  if (!(number >= least && number <= most)) {
    Invalid(absl::StrCat(name, " is ", Shown(*value), ", must be in [", least, ", ", most, "]"));
    return least;
  }
  return number;
}

bool ConfigFields::BoolOr(const std::string& name, bool otherwise) {
  const json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    Invalid(WrongType(name, "true or false", *value));
    return otherwise;
  }
  return value->get<bool>();
}

std::string ConfigFields::Text(const std::string& name) {
  return Require(name) == nullptr ? "" : TextOr(name, "");
}

std::string ConfigFields::TextOr(const std::string& name, std::string otherwise) {
  const json* value = Find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) {
    Invalid(WrongType(name, "a string", *value));
    return otherwise;
  }
  return value->get<std::string>();
}

std::vector<int32_t> ConfigFields::Ids(const std::string& name, int64_t least, int64_t most,
                                       size_t count_max) {
  std::vector<int32_t> ids;
  const json* value = Find(name);
  if (value == nullptr) return ids;
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > count_max) {
    Invalid(absl::StrCat(name, " has ", list.size(), " entries, at most ", count_max));
    return ids;
  }
  for (const json& id : list) {
    if (!id.is_number_integer()) {
      Invalid(WrongType(name, "an integer or a list of integers", id));
      return ids;
    }
    if (!IntIn(id, least, most)) {
      Invalid(absl::StrCat(name, " holds ", Shown(id), ", must be in [", least, ", ", most, "]"));
      return ids;
    }
    const auto number = id.get<int32_t>();
    if (std::find(ids.begin(), ids.end(), number) == ids.end()) ids.push_back(number);
  }
  return ids;
}

const json* ConfigFields::Object(const std::string& name) {
  const json* value = Find(name);
  if (value != nullptr && !value->is_object()) {
    Invalid(WrongType(name, "an object", *value));
    return nullptr;
  }
  return value;
}

}  // namespace tutti::model
