// Reads fields of one JSON object with their limits, keeping the first error.
//
// A reader asks for all its fields and looks at status() once at the end: until then a bad field
// has its lower limit.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::model {

class ConfigFields {
 public:
  // `object` outlives this. `prefix` stands before every error: "config.json", "config.json:
  // rope_parameters".
  ConfigFields(const nlohmann::json& object, std::string prefix);

  // A field that is absent or null is not there.
  bool Has(const std::string& name) const;

  // Required.
  int64_t Int(const std::string& name, int64_t least, int64_t most);
  double Number(const std::string& name, double least, double most);
  std::string Text(const std::string& name);
  // A field with a value for when the field is not there.
  int64_t IntOr(const std::string& name, int64_t least, int64_t most, int64_t otherwise);
  double NumberOr(const std::string& name, double least, double most, double otherwise);
  bool BoolOr(const std::string& name, bool otherwise);
  std::string TextOr(const std::string& name, std::string otherwise);
  // One integer or a list of at most `count_max`, duplicates dropped; empty when not there.
  std::vector<int32_t> Ids(const std::string& name, int64_t least, int64_t most, size_t count_max);

  // An object-valued field; null when not there or (an error) not an object.
  const nlohmann::json* Object(const std::string& name);

  // Errors found by the caller. The first error of all stays.
  void Invalid(const std::string& what);      // INVALID_ARGUMENT
  void Unsupported(const std::string& what);  // UNIMPLEMENTED

  // Takes over the error of a reader of a nested object.
  void Adopt(const absl::Status& status);

  const absl::Status& status() const { return status_; }
  const std::string& prefix() const { return prefix_; }
  // REQUIRES: status() was OK after construction
  const nlohmann::json& object() const { return object_; }

 private:
  const nlohmann::json* Find(const std::string& name) const;
  const nlohmann::json* Require(const std::string& name);

  const nlohmann::json& object_;
  std::string prefix_;
  absl::Status status_;
};

}  // namespace tutti::model
