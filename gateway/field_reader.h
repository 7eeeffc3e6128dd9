// Reads the members of a request's JSON object by name and type. The first mistake is kept; what is
// read after it does not matter. A member that is null is as one that is not there.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/api_error.h"
#include "gateway/field_log.h"
#include "gateway/json_text.h"

namespace tutti::gateway {

// A field that we do not serve.
struct UnservedField {
  std::string_view name;
  // JSON of a value that asks for nothing, beside null and what is empty; "*": all do, the field
  // never changes an answer.
  std::string_view harmless = "null";
  // The field that is served in its place; empty: there is none.
  std::string_view instead = {};
};

class FieldReader {
 public:
  // `path` of the object, with a dot at its end; empty for the body. Both outlive the reader.
  FieldReader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  // The member, or null if it is not there.
  const Json* Find(std::string_view name);
  std::optional<bool> Bool(std::string_view name);
  // Whole numbers, also as 3.0.
  std::optional<int64_t> Integer(std::string_view name, int64_t min, int64_t max);
  std::optional<float> Number(std::string_view name);
  std::optional<std::string> Text(std::string_view name);
  // A list of ids of tokens.
  std::optional<std::vector<int32_t>> Ids(std::string_view name);
  // A text or a list of texts.
  std::optional<std::vector<std::string>> Texts(std::string_view name);

  // Refuses fields whose values would change the answer.
  void Refuse(const UnservedField& field);
  // Fields that never change an answer.
  void Ignore(std::initializer_list<std::string_view> names);
  // Refuses what nobody has asked for by name.
  void RefuseOthers();

  void Fail(std::string_view name, std::string_view what);
  // An error of an object inside.
  void Fail(const ApiError& error);
  const std::optional<ApiError>& error() const { return error_; }
  std::string PathOf(std::string_view name) const { return path_ + std::string(name); }

 private:
  // As Find; `use` is for a document of the API.
  const Json* Look(std::string_view name, FieldUse use);

  const Json& object_;
  const std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<ApiError> error_;
};

// The ids of a list of numbers; nothing if it is none.
std::optional<std::vector<int32_t>> IdsOf(const Json& list);

}  // namespace tutti::gateway
