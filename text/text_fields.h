// Reading JSON objects of which every member must be known, with the path of each for errors.
#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tutti::text {

// "field: why".
absl::Status RefuseField(std::string_view field, std::string_view why);

// A short picture of `value` for a message.
std::string ShownJson(const nlohmann::json& value);

// REQUIRES: the object outlives this.
class TextFields {
 public:
  // Errors: InvalidArgument when `value` is no object or has a member that is not `known`.
  static absl::StatusOr<TextFields> Open(const nlohmann::json& value, std::string path,
                                         std::initializer_list<std::string_view> known);
  // The same, with any members.
  static absl::StatusOr<TextFields> OpenAny(const nlohmann::json& value, std::string path);

  std::string Path(std::string_view name) const;

  // The member, null when absent.
  const nlohmann::json& Get(std::string_view name) const;

  // Errors: InvalidArgument naming the member, when it has another type.
  absl::StatusOr<bool> Bool(std::string_view name, bool absent) const;
  absl::StatusOr<std::string> String(std::string_view name) const;
  // OK when the member is absent, null or one of `harmless`.
  absl::Status MustBe(std::string_view name, std::initializer_list<nlohmann::json> harmless) const;

 private:
  TextFields(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const nlohmann::json* value_;
  std::string path_;  // "" for a document whose members need no prefix
};

}  // namespace tutti::text
