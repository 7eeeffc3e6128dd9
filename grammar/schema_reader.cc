#include "grammar/schema_reader.h"

#include <algorithm>
#include <bit>
#include <set>

#include "grammar/limits.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {

SchemaReader::SchemaReader(SchemaSource source, Whitespace whitespace, Graph* graph)
    : source_(std::move(source)), values_(&source_), whitespace_(whitespace), graph_(*graph) {}

absl::StatusOr<RuleId> SchemaReader::Read() {
  return_ = graph_.Add({NodeKind::kReturn});
  nothing_ = graph_.Add({NodeKind::kNothing});
  TUTTI_ASSIGN_OR_RETURN(const RuleId root, RuleFor({{&source_.root(), false}}));
  while (!work_.empty()) {
    const auto [rule, parts] = std::move(work_.front());
    work_.pop_front();
    const size_t nodes = graph_.nodes.size();
    TUTTI_ASSIGN_OR_RETURN(const NodeId entry, Build(parts));
    graph_.rules[rule] = entry;
    TUTTI_RETURN_IF_ERROR(source_.Spend(8 + 2 * static_cast<int64_t>(graph_.nodes.size() - nodes)));
    if (graph_.nodes.size() > kNodesMax || graph_.rules.size() > kRulesMax) {
      return absl::ResourceExhaustedError(
          Concat("more than ", kNodesMax, " nodes or ", kRulesMax, " rules"));
    }
  }
  return root;
}

absl::Status SchemaReader::FollowReferences(SchemaPart* part) {
  for (int i = 0; i < kSourceDepthMax && !part->alone; ++i) {
    const JsonValue& schema = *part->schema;
    TUTTI_RETURN_IF_ERROR(source_.Check(schema));
    if (schema.Find("$ref") == nullptr) return absl::OkStatus();
    const bool hides = source_.draft7();
    if (!hides && (source_.SaysAlone(schema) || schema.Find("allOf") != nullptr ||
                   schema.Find("anyOf") != nullptr || schema.Find("oneOf") != nullptr)) {
      return absl::OkStatus();
    }
    TUTTI_ASSIGN_OR_RETURN(part->schema, source_.Resolve(schema));
  }
  return absl::OkStatus();
}

absl::StatusOr<RuleId> SchemaReader::RuleFor(SchemaParts parts) {
  // Comparing with rules that are there already looks at most of the parts, some times.
  TUTTI_RETURN_IF_ERROR(source_.Spend(4 + 6 * static_cast<int64_t>(parts.size())));
  for (SchemaPart& part : parts) TUTTI_RETURN_IF_ERROR(FollowReferences(&part));
  std::set<SchemaPart> seen;
  std::erase_if(parts, [&](const SchemaPart& part) { return !seen.insert(part).second; });
  const auto found = rules_.find(parts);
  if (found != rules_.end()) return found->second;
  const RuleId rule = graph_.AddRule(nothing_);
  rules_.emplace(parts, rule);
  work_.emplace_back(rule, std::move(parts));
  return rule;
}

absl::StatusOr<SchemaReader::Expanded> SchemaReader::Expand(const SchemaParts& parts) {
  Expanded expanded;
  SchemaParts work(parts.rbegin(), parts.rend());
  std::set<SchemaPart> seen;
  while (!work.empty() && !expanded.never) {
    const SchemaPart part = work.back();
    work.pop_back();
    if (!seen.insert(part).second) continue;
    TUTTI_RETURN_IF_ERROR(source_.Spend(6 + part.schema->look_cost() * 2 / 3));
    TUTTI_RETURN_IF_ERROR(ExpandOne(part, &work, &expanded));
    if (seen.size() > kConjunctsMax) {
      return source_.TooMuch(*part.schema, "",
                             Concat("more than ", kConjunctsMax, " schemas in one place"));
    }
  }
  return expanded;
}

absl::Status SchemaReader::ExpandOne(const SchemaPart& part, SchemaParts* work,
                                     Expanded* expanded) {
  const JsonValue& schema = *part.schema;
  TUTTI_RETURN_IF_ERROR(source_.Check(schema));
  if (schema.is(JsonValue::Kind::kBoolean)) {
    expanded->never |= !schema.boolean;
    return absl::OkStatus();
  }
  const bool refers = schema.Find("$ref") != nullptr;
  if (!part.alone) {
    if (refers) {
      TUTTI_ASSIGN_OR_RETURN(const JsonValue* target, source_.Resolve(schema));
      work->push_back({target, false});
      if (source_.draft7()) return absl::OkStatus();
    }
    if (const JsonValue* all = schema.Find("allOf")) {
      TUTTI_RETURN_IF_ERROR(source_.Spend(8 * static_cast<int64_t>(all->items.size())));
      for (size_t i = all->items.size(); i-- > 0;) {
        work->push_back({source_.Inside(schema, "allOf", i), false});
      }
    }
    for (const std::string_view keyword : {"anyOf", "oneOf"}) {
      if (schema.Find(keyword) != nullptr) expanded->unions.push_back({&schema, keyword});
    }
  }
  if (source_.SaysAlone(schema)) expanded->plain.push_back(&schema);
  return absl::OkStatus();
}

absl::StatusOr<NodeId> SchemaReader::Build(const SchemaParts& parts) {
  TUTTI_ASSIGN_OR_RETURN(const Expanded expanded, Expand(parts));
  if (expanded.never) return nothing_;
  if (!expanded.unions.empty()) return BuildUnions(expanded);
  return BuildPlain(expanded.plain);
}

uint8_t SchemaReader::TypesOf(const PlainSchemas& schemas) const {
  uint8_t types = kAllTypes;
  for (const JsonValue* schema : schemas) types &= source_.Types(*schema);
  return types;
}

absl::StatusOr<std::optional<std::vector<const JsonValue*>>> SchemaReader::Values(
    const PlainSchemas& schemas) {
  std::vector<const JsonValue*> candidates;
  const JsonValue* origin = nullptr;  // the enum that they are of
  bool finite = false;
  for (const JsonValue* schema : schemas) {
    if (const JsonValue* constant = schema->Find("const")) {
      candidates = {constant};
      origin = nullptr;
      finite = true;
      break;
    }
    const JsonValue* values = schema->Find("enum");
    if (values == nullptr || (finite && values->items.size() >= candidates.size())) continue;
    candidates.clear();
    for (const JsonValue& value : values->items) candidates.push_back(&value);
    origin = values;
    finite = true;
  }
  TUTTI_RETURN_IF_ERROR(source_.Spend(static_cast<int64_t>(candidates.size())));
  if (!finite) return std::nullopt;
  std::vector<const JsonValue*> admitted;
  for (const JsonValue* candidate : candidates) {
    bool all = true;
    for (const JsonValue* schema : schemas) {
      // A list admits all of its own.
      if (origin != nullptr && schema->members.size() == 1 && schema->Find("enum") == origin) {
        continue;
      }
      TUTTI_ASSIGN_OR_RETURN(const bool admits, values_.Admits(*schema, *candidate, true));
      all &= admits;
    }
    if (all) admitted.push_back(candidate);
  }
  return admitted;
}

absl::StatusOr<NodeId> SchemaReader::BuildPlain(const PlainSchemas& schemas) {
  TUTTI_ASSIGN_OR_RETURN(const auto values, Values(schemas));
  if (values) {
    std::map<std::string, uint32_t> texts;
    for (const JsonValue* value : *values) {
      TUTTI_RETURN_IF_ERROR(source_.Spend(16 + value->weight * int64_t{3}));
      texts.try_emplace(JsonText(*value), static_cast<uint32_t>(texts.size()));
    }
    if (texts.empty()) return nothing_;
    graph_.tries.emplace_back(
        std::vector<std::pair<std::string, uint32_t>>(texts.begin(), texts.end()),
        /*numbered=*/false, source_.work());
    return graph_.Add({NodeKind::kTexts, return_, static_cast<uint32_t>(graph_.tries.size()) - 1});
  }
  const uint8_t types = TypesOf(schemas);
  std::vector<NodeId> alternatives;
  const auto add = [&](const std::optional<NodeId>& node) {
    if (node) alternatives.push_back(*node);
  };
  if ((types & kNullType) != 0) add(graph_.AddText("null", return_));
  if ((types & kBooleanType) != 0) {
    add(graph_.AddText("true", return_));
    add(graph_.AddText("false", return_));
  }
  if ((types & kNumberTypes) != 0) {
    TUTTI_ASSIGN_OR_RETURN(const auto number, BuildNumber(schemas, types));
    add(number);
  }
  if ((types & kStringType) != 0) {
    TUTTI_ASSIGN_OR_RETURN(const auto string, BuildString(schemas));
    add(string);
  }
  if ((types & kArrayType) != 0) {
    TUTTI_ASSIGN_OR_RETURN(const auto array, BuildArray(schemas));
    add(array);
  }
  if ((types & kObjectType) != 0) {
    TUTTI_ASSIGN_OR_RETURN(const auto object, BuildObject(schemas));
    add(object);
  }
  return Split(std::move(alternatives));
}

NodeId SchemaReader::Gap(NodeId next, uint32_t counted_array) {
  if (whitespace_ == Whitespace::kCompact) return next;
  return graph_.Add({NodeKind::kGap, next, 0, counted_array});
}

NodeId SchemaReader::Split(std::vector<NodeId> alternatives) {
  if (alternatives.empty()) return nothing_;
  if (alternatives.size() == 1) return alternatives.front();
  graph_.splits.push_back(std::move(alternatives));
  return graph_.Add({NodeKind::kSplit, 0, static_cast<uint32_t>(graph_.splits.size()) - 1});
}

absl::StatusOr<RuleId> ReadSchema(std::string_view text, Whitespace whitespace, BuildWork* work,
                                  Graph* graph) {
  TUTTI_ASSIGN_OR_RETURN(SchemaSource source, SchemaSource::Parse(text, work));
  SchemaReader reader(std::move(source), whitespace, graph);
  return reader.Read();
}

}  // namespace tutti::grammar
