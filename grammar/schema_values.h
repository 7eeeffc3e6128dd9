// Whether a value satisfies a schema, for those of enum and const, and patterns of names.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "grammar/regex_program.h"
#include "grammar/schema_source.h"

namespace tutti::grammar {

// Thread: one.
class SchemaValues {
 public:
  explicit SchemaValues(SchemaSource* source) : source_(*source) {}

  // The expression of a keyword of a schema, each text once. `whole`: as RegexProgram::Compile.
  // REQUIRES: the text lives as long as we do
  absl::StatusOr<std::shared_ptr<const RegexProgram>> Program(const JsonValue& schema,
                                                              std::string_view keyword,
                                                              std::string_view expression,
                                                              bool whole);
  // REQUIRES: valid UTF-8
  absl::StatusOr<bool> Matches(const RegexProgram& program, std::string_view text);

  // Whether `value` satisfies the schema. `alone`: without what $ref, allOf, anyOf and oneOf say.
  // Errors: for what is not served, and beyond kBuildWorkMax.
  absl::StatusOr<bool> Admits(const JsonValue& schema, const JsonValue& value, bool alone,
                              int depth = 0);

 private:
  absl::StatusOr<bool> AdmitsApplied(const JsonValue& schema, const JsonValue& value, int depth);
  absl::StatusOr<bool> AdmitsString(const JsonValue& schema, const JsonValue& value);
  absl::StatusOr<bool> AdmitsNumber(const JsonValue& schema, const JsonValue& value);
  absl::StatusOr<bool> AdmitsArray(const JsonValue& schema, const JsonValue& value, int depth);
  absl::StatusOr<bool> AdmitsObject(const JsonValue& schema, const JsonValue& value, int depth);
  absl::StatusOr<bool> AdmitsMember(const JsonValue& schema, const JsonValue::Member& member,
                                    int depth);

  // Whether an array of values, of `enum`, has it.
  absl::StatusOr<bool> Has(const JsonValue& values, const JsonValue& value);

  SchemaSource& source_;
  // By text, and by where the text lies, which is faster.
  std::map<std::pair<std::string, bool>, std::shared_ptr<const RegexProgram>> programs_;
  absl::flat_hash_map<std::pair<const char*, bool>, std::shared_ptr<const RegexProgram>> by_place_;
  absl::flat_hash_map<const RegexProgram*, RegexProgram::Scratch> scratch_;
  absl::flat_hash_map<const JsonValue*, absl::flat_hash_set<std::string>> values_;  // SameText
  size_t instructions_ = 0;
};

// A key as a value.
JsonValue NameValue(const std::string& name);

// The schema for an item, or null where nothing is said of it.
const JsonValue* ItemSchema(SchemaSource* source, const JsonValue& schema, size_t index);
// How many of the first items have schemas of their own.
size_t FirstItems(const SchemaSource& source, const JsonValue& schema);

// The expression of a format that is served; empty for one that says nothing of values because it
// is none of JSON Schema's.  Errors: InvalidArgument for those of JSON Schema that are not served.
absl::StatusOr<std::string_view> FormatExpression(std::string_view format);

}  // namespace tutti::grammar
