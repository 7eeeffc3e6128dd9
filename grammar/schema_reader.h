// The work of ReadSchema: schemas that hold together in one place become a rule.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/schema.h"
#include "grammar/schema_source.h"
#include "grammar/schema_values.h"

namespace tutti::grammar {

// A schema, or what it says without $ref, allOf, anyOf and oneOf.
struct SchemaPart {
  const JsonValue* schema = nullptr;
  bool alone = false;

  auto operator<=>(const SchemaPart&) const = default;
};
// All of them hold.
using SchemaParts = std::vector<SchemaPart>;
// Schemas without what SchemaPart::alone leaves out.
using PlainSchemas = std::vector<const JsonValue*>;

// One rule for every set of schemas that meet, made when it is first named, so that those that go
// round end. The class is in five files, because unions and what excludes what
// (schema_unions.cc), strings and numbers (schema_scalars.cc), arrays (schema_arrays.cc) and
// objects (schema_objects.cc) are matters of their own.  Thread: one.
class SchemaReader {
 public:
  SchemaReader(SchemaSource source, Whitespace whitespace, Graph* graph);

  // The rule of the whole schema.
  absl::StatusOr<RuleId> Read();

 private:
  struct Union {
    const JsonValue* schema = nullptr;
    std::string_view keyword;  // anyOf or oneOf
  };
  struct Expanded {
    bool never = false;
    PlainSchemas plain;
    std::vector<Union> unions;
  };

  absl::StatusOr<RuleId> RuleFor(SchemaParts parts);
  // A reference and nothing beside it is what it names.
  absl::Status FollowReferences(SchemaPart* part);
  absl::StatusOr<Expanded> Expand(const SchemaParts& parts);
  absl::Status ExpandOne(const SchemaPart& part, SchemaParts* work, Expanded* expanded);
  absl::StatusOr<NodeId> Build(const SchemaParts& parts);
  absl::StatusOr<NodeId> BuildPlain(const PlainSchemas& schemas);
  // Those of const and enum that satisfy all; nothing where there is neither.
  absl::StatusOr<std::optional<std::vector<const JsonValue*>>> Values(const PlainSchemas& schemas);
  uint8_t TypesOf(const PlainSchemas& schemas) const;

  absl::StatusOr<NodeId> BuildUnions(const Expanded& expanded);
  absl::StatusOr<uint8_t> QuickTypes(const JsonValue& schema);
  absl::Status CheckExclusive(const Union& one, const PlainSchemas& beside);
  // Whether it is certain that no value satisfies both.
  absl::StatusOr<bool> Disjoint(const SchemaParts& a, const SchemaParts& b, int depth);
  absl::StatusOr<bool> NoneAdmitted(const std::vector<const JsonValue*>& values,
                                    const SchemaParts& parts);
  absl::StatusOr<bool> DisjointObjects(const PlainSchemas& a, const PlainSchemas& b, int depth);
  // By a property that `one` requires.
  absl::StatusOr<bool> DisjointBy(const PlainSchemas& one, const PlainSchemas& other, int depth);
  bool DisjointCounts(const PlainSchemas& a, const PlainSchemas& b, std::string_view least,
                      std::string_view most) const;
  bool DisjointNumbers(const PlainSchemas& a, const PlainSchemas& b) const;

  // Each gives the node that begins it, or nothing where no such value is possible.
  absl::StatusOr<std::optional<NodeId>> BuildString(const PlainSchemas& schemas);
  absl::StatusOr<std::optional<NodeId>> BuildNumber(const PlainSchemas& schemas, uint8_t types);
  absl::StatusOr<std::optional<NodeId>> BuildArray(const PlainSchemas& schemas);
  absl::StatusOr<std::optional<NodeId>> BuildObject(const PlainSchemas& schemas);

  // What is said of a string's text: expressions that it matches, and its length.
  struct StringSpec {
    std::vector<StringPart> parts;
    int64_t min = 0;
    int64_t max = StringMachine::kUnbounded;
  };
  absl::Status AddStringSpec(const JsonValue& schema, StringSpec* spec);
  absl::StatusOr<std::optional<uint32_t>> AddString(const JsonValue& schema,
                                                    std::string_view keyword, StringSpec spec);
  // Of all schemas: the largest of the least, the smallest of the most.
  int64_t Least(const PlainSchemas& schemas, std::string_view keyword) const;
  int64_t Most(const PlainSchemas& schemas, std::string_view keyword) const;
  struct Bounds {
    std::optional<NumberMachine::Bound> low;
    std::optional<NumberMachine::Bound> high;
  };
  Bounds BoundsOf(const PlainSchemas& schemas) const;
  absl::StatusOr<NumberMachine> IntegerMachine(const PlainSchemas& schemas, const Bounds& bounds);
  absl::StatusOr<std::optional<int64_t>> StepOf(const PlainSchemas& schemas);

  using NameSet = std::set<std::string_view>;
  NameSet RequiredOf(const PlainSchemas& schemas);
  // What keys may be, besides what is said of the values.
  struct KeySpec {
    std::vector<const JsonValue*> names;  // schemas of propertyNames
    std::optional<std::vector<std::string>> only;
    StringSpec text;
  };
  struct KeyPattern {
    std::shared_ptr<const RegexProgram> program;
    std::string text;
  };
  absl::StatusOr<KeySpec> KeysOf(const PlainSchemas& schemas);
  absl::StatusOr<std::vector<KeyPattern>> PatternsOf(const PlainSchemas& schemas);
  // The names that have a place of their own, in their order.
  absl::StatusOr<std::vector<std::string>> NamesOf(const PlainSchemas& schemas,
                                                   const KeySpec& keys);
  // What the schemas say of the value of a key; nothing where it may not be there.
  absl::StatusOr<std::optional<SchemaParts>> ValueParts(const PlainSchemas& schemas,
                                                        std::optional<std::string_view> name,
                                                        const std::vector<bool>& matched,
                                                        const std::vector<KeyPattern>& patterns);
  absl::StatusOr<std::vector<bool>> Matched(const std::vector<KeyPattern>& patterns,
                                            std::string_view name);
  absl::Status AddDeclared(const PlainSchemas& schemas, const KeySpec& keys,
                           const std::vector<KeyPattern>& patterns, ObjectNode* object);
  absl::Status AddOpen(const PlainSchemas& schemas, const KeySpec& keys,
                       const std::vector<KeyPattern>& patterns, ObjectNode* object);
  absl::Status AddOpenKeys(const PlainSchemas& schemas, const KeySpec& keys,
                           const std::vector<KeyPattern>& patterns,
                           const std::vector<bool>& matched,
                           const std::vector<std::vector<bool>>& own, ObjectNode* object);
  NodeId AddObject(ObjectNode object);

  // Whitespace, where it is asked for, before `next`.
  NodeId Gap(NodeId next, uint32_t counted_array = 0);
  NodeId Split(std::vector<NodeId> alternatives);

  SchemaSource source_;
  SchemaValues values_;
  const Whitespace whitespace_;
  Graph& graph_;
  NodeId return_ = 0;
  NodeId nothing_ = 0;
  std::map<SchemaParts, RuleId> rules_;
  std::deque<std::pair<RuleId, SchemaParts>> work_;
  std::map<std::string, std::optional<uint32_t>> strings_;  // by what is said of them
  std::map<uint32_t, RuleId> string_rules_;                 // with quotes
  // Expressions by whose address strings are found again.
  std::vector<std::shared_ptr<const RegexProgram>> kept_;
};

}  // namespace tutti::grammar
