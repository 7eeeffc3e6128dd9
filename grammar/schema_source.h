// A schema as it was given: its parts by pointer and reference, and what of it is not served.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "grammar/build_work.h"
#include "grammar/json_tree.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {

// The types of JSON, a bit each; numbers with a fraction apart from integers.
enum JsonTypes : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kNumberTypes = kIntegerType | kFractionType,
  kAllTypes = 127,
};
uint8_t TypeOf(const JsonValue& value);

// Of the five longest numbers that a schema can say of one (JsonValue::weight).
inline constexpr uint32_t kDecimalsWeight = 5 * kNumberCharactersMax / 8;

// The class is in two files, because what is served (schema_keywords.cc) is a matter of its own.
// Thread: one.
class SchemaSource {
 public:
  // Errors: as ParseJsonTree; InvalidArgument for `$schema` of a draft that is not served.
  static absl::StatusOr<SchemaSource> Parse(std::string_view text, BuildWork* work);

  const JsonValue& root() const { return root_; }
  // Draft 7: `$ref` hides what stands beside it.
  bool draft7() const { return draft7_; }
  // Before draft 2020-12 `prefixItems` is a word like any other.
  bool has_prefix_items() const { return has_prefix_items_; }

  // A part of the schema inside another; remembers where it is. REQUIRES of the second: `keyword`
  // lives as long as we do.
  const JsonValue* Inside(const JsonValue& schema, std::string_view keyword);
  const JsonValue* Inside(const JsonValue& schema, std::string_view keyword, size_t index);
  const JsonValue* Inside(const JsonValue& schema, std::string_view keyword, std::string_view name);
  // An error at a keyword of a schema, or at the schema.
  absl::Status Error(const JsonValue& schema, std::string_view keyword,
                     const TextPiece& what) const;
  absl::Status TooMuch(const JsonValue& schema, std::string_view keyword,
                       const TextPiece& what) const;

  // That it is an object or a boolean, whose keywords are served and have values of their types.
  // Looks at one schema once.
  absl::Status Check(const JsonValue& schema);
  // Whether a schema that Check has passed says something of values besides what $ref, allOf, anyOf
  // and oneOf say.
  bool SaysAlone(const JsonValue& schema) const { return checked_.at(&schema); }

  // What `$ref` of the schema names. Errors: of another document, or not there.
  absl::StatusOr<const JsonValue*> Resolve(const JsonValue& schema);

  // The value of a keyword that Check has passed; nothing when it is not there.
  std::optional<int64_t> Count(const JsonValue& schema, std::string_view keyword) const;
  std::optional<Decimal> Number(const JsonValue& schema, std::string_view keyword) const;
  // Of `type`; all where it is not there.
  uint8_t Types(const JsonValue& schema) const;

  BuildWork* work() { return work_; }
  // Counts work.
  absl::Status Spend(int64_t units) { return work_->Spend(units); }

 private:
  explicit SchemaSource(BuildWork* work) : work_(work) {}

  struct Whereabouts {
    const JsonValue* parent = nullptr;
    std::string_view keyword;
    std::optional<size_t> index;
    std::optional<std::string_view> name;
  };
  std::string PathOf(const JsonValue& schema) const;
  absl::StatusOr<const JsonValue*> FindReferred(const JsonValue& schema);
  absl::Status CheckKeyword(const JsonValue& schema, const JsonValue::Member& member);
  absl::Status CheckSubschemas(const JsonValue& schema, const JsonValue::Member& member) const;
  absl::Status CheckType(const JsonValue& schema, const JsonValue& type) const;
  // Finds anchors, and schemas with an address of their own.
  void FindNames(const JsonValue& schema);

  JsonValue root_;
  bool draft7_ = false;
  bool has_prefix_items_ = true;
  bool arrays_of_items_ = true;  // `items` may be an array
  bool searched_ = false;
  bool has_addresses_ = false;
  std::map<std::string, const JsonValue*, std::less<>> anchors_;
  absl::flat_hash_map<const JsonValue*, Whereabouts> whereabouts_;
  absl::flat_hash_map<const JsonValue*, bool> checked_;  // SaysAlone
  absl::flat_hash_map<const JsonValue*, const JsonValue*> referred_;
  BuildWork* work_;
};

}  // namespace tutti::grammar
