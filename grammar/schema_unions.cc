#include <algorithm>

#include "grammar/limits.h"
#include "grammar/schema_reader.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// How deep properties are compared to show that two objects exclude each other.
constexpr int kDisjointDepthMax = 3;

SchemaParts Alone(const PlainSchemas& schemas) {
  SchemaParts parts;
  for (const JsonValue* schema : schemas) parts.push_back({schema, true});
  return parts;
}

}  // namespace

// The types that `type`, const and enum leave, also behind a reference.
absl::StatusOr<uint8_t> SchemaReader::QuickTypes(const JsonValue& schema) {
  const JsonValue* at = &schema;
  uint8_t types = kAllTypes;
  for (int i = 0; i < 8; ++i) {
    TUTTI_RETURN_IF_ERROR(source_.Spend(4 + at->look_cost() / 2));
    TUTTI_RETURN_IF_ERROR(source_.Check(*at));
    if (at->is(JsonValue::Kind::kBoolean)) return at->boolean ? types : uint8_t{0};
    const bool refers = at->Find("$ref") != nullptr;
    if (!refers || !source_.draft7()) {
      types &= source_.Types(*at);
      if (const JsonValue* constant = at->Find("const")) types &= TypeOf(*constant);
    }
    if (!refers) break;
    TUTTI_ASSIGN_OR_RETURN(at, source_.Resolve(*at));
  }
  return types;
}

absl::StatusOr<NodeId> SchemaReader::BuildUnions(const Expanded& expanded) {
  struct Alternative {
    SchemaParts parts;
    uint8_t types = 0;
  };
  std::vector<Alternative> alternatives = {{Alone(expanded.plain), TypesOf(expanded.plain)}};
  for (const Union& one : expanded.unions) {
    if (one.keyword == "oneOf") {
      TUTTI_RETURN_IF_ERROR(CheckExclusive(one, expanded.plain));
    }
    const size_t branches = one.schema->Find(one.keyword)->items.size();
    std::vector<Alternative> next;
    for (size_t i = 0; i < branches; ++i) {
      const JsonValue* branch = source_.Inside(*one.schema, one.keyword, i);
      TUTTI_ASSIGN_OR_RETURN(const uint8_t types, QuickTypes(*branch));
      for (const Alternative& alternative : alternatives) {
        TUTTI_RETURN_IF_ERROR(source_.Spend(8 + static_cast<int64_t>(alternative.parts.size())));
        if ((alternative.types & types) == 0) continue;
        next.push_back({alternative.parts, static_cast<uint8_t>(alternative.types & types)});
        next.back().parts.push_back({branch, false});
      }
      if (next.size() > kAlternativesMax) {
        return source_.TooMuch(*one.schema, one.keyword,
                               Concat("more than ", kAlternativesMax,
                                      " alternatives, when "
                                      "each of a union meets each of the others"));
      }
    }
    alternatives = std::move(next);
  }
  std::vector<NodeId> nodes;
  for (Alternative& alternative : alternatives) {
    TUTTI_ASSIGN_OR_RETURN(const RuleId rule, RuleFor(std::move(alternative.parts)));
    nodes.push_back(graph_.Add({NodeKind::kGoto, 0, rule}));
  }
  return Split(std::move(nodes));
}

absl::Status SchemaReader::CheckExclusive(const Union& one, const PlainSchemas& beside) {
  const size_t branches = one.schema->Find(one.keyword)->items.size();
  std::vector<SchemaParts> all;
  for (size_t i = 0; i < branches; ++i) {
    TUTTI_RETURN_IF_ERROR(source_.Spend(8 + static_cast<int64_t>(beside.size())));
    all.push_back(Alone(beside));
    all.back().push_back({source_.Inside(*one.schema, one.keyword, i), false});
  }
  for (size_t i = 0; i < branches; ++i) {
    for (size_t j = i + 1; j < branches; ++j) {
      TUTTI_ASSIGN_OR_RETURN(const bool disjoint, Disjoint(all[i], all[j], 0));
      if (disjoint) continue;
      return source_.Error(*one.schema, "oneOf",
                           Concat("is served where its branches exclude each other; values "
                                  "may satisfy both ",
                                  i, " and ", j));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SchemaReader::NoneAdmitted(const std::vector<const JsonValue*>& values,
                                                const SchemaParts& parts) {
  for (const JsonValue* value : values) {
    bool all = true;
    for (const SchemaPart& part : parts) {
      TUTTI_ASSIGN_OR_RETURN(const bool admits, values_.Admits(*part.schema, *value, part.alone));
      all &= admits;
    }
    if (all) return false;
  }
  return true;
}

absl::StatusOr<bool> SchemaReader::Disjoint(const SchemaParts& a, const SchemaParts& b, int depth) {
  TUTTI_RETURN_IF_ERROR(source_.Spend(4));
  TUTTI_ASSIGN_OR_RETURN(const Expanded left, Expand(a));
  TUTTI_ASSIGN_OR_RETURN(const Expanded right, Expand(b));
  if (left.never || right.never) return true;
  const auto common = static_cast<uint8_t>(TypesOf(left.plain) & TypesOf(right.plain));
  if (common == 0) return true;
  TUTTI_ASSIGN_OR_RETURN(const auto left_values, Values(left.plain));
  if (left_values) return NoneAdmitted(*left_values, b);
  TUTTI_ASSIGN_OR_RETURN(const auto right_values, Values(right.plain));
  if (right_values) return NoneAdmitted(*right_values, a);
  if ((common & (kNullType | kBooleanType)) != 0) return false;
  // Bounds and counts of all of them.
  for (const PlainSchemas* plain : {&left.plain, &right.plain}) {
    for (const JsonValue* schema : *plain) {
      TUTTI_RETURN_IF_ERROR(source_.Spend(16 + 2 * std::min(schema->weight, kDecimalsWeight)));
    }
  }
  if ((common & kNumberTypes) != 0 && !DisjointNumbers(left.plain, right.plain)) return false;
  if ((common & kStringType) != 0 &&
      !DisjointCounts(left.plain, right.plain, "minLength", "maxLength")) {
    return false;
  }
  if ((common & kArrayType) != 0 &&
      !DisjointCounts(left.plain, right.plain, "minItems", "maxItems")) {
    return false;
  }
  if ((common & kObjectType) == 0) return true;
  return DisjointObjects(left.plain, right.plain, depth);
}

bool SchemaReader::DisjointCounts(const PlainSchemas& a, const PlainSchemas& b,
                                  std::string_view least, std::string_view most) const {
  return Most(a, most) < Least(b, least) || Most(b, most) < Least(a, least);
}

bool SchemaReader::DisjointNumbers(const PlainSchemas& a, const PlainSchemas& b) const {
  const auto above = [](const Bounds& low, const Bounds& high) {
    if (!low.low || !high.high) return false;
    const int order = Compare(low.low->value, high.high->value);
    return order > 0 || (order == 0 && (low.low->exclusive || high.high->exclusive));
  };
  return above(BoundsOf(a), BoundsOf(b)) || above(BoundsOf(b), BoundsOf(a));
}

// A property that one of them requires, and of whose value they say what excludes each other, or
// which the other one does not allow.
absl::StatusOr<bool> SchemaReader::DisjointObjects(const PlainSchemas& a, const PlainSchemas& b,
                                                   int depth) {
  if (DisjointCounts(a, b, "minProperties", "maxProperties")) return true;
  if (depth >= kDisjointDepthMax) return false;
  TUTTI_ASSIGN_OR_RETURN(const bool first, DisjointBy(a, b, depth));
  if (first) return true;
  return DisjointBy(b, a, depth);
}

absl::StatusOr<bool> SchemaReader::DisjointBy(const PlainSchemas& one, const PlainSchemas& other,
                                              int depth) {
  TUTTI_ASSIGN_OR_RETURN(const auto patterns, PatternsOf(other));
  TUTTI_ASSIGN_OR_RETURN(const auto own_patterns, PatternsOf(one));
  const NameSet theirs_required = RequiredOf(other);
  for (const JsonValue* schema : one) {
    const JsonValue* required = schema->Find("required");
    if (required == nullptr) continue;
    for (const JsonValue& name : required->items) {
      TUTTI_RETURN_IF_ERROR(source_.Spend(8));
      TUTTI_ASSIGN_OR_RETURN(const auto matched, Matched(patterns, name.text));
      TUTTI_ASSIGN_OR_RETURN(const auto theirs, ValueParts(other, name.text, matched, patterns));
      if (!theirs) return true;
      // Where both may lack it, its value shows nothing; one that requires it is enough when the
      // other requires it too.
      if (!theirs_required.contains(name.text)) continue;
      TUTTI_ASSIGN_OR_RETURN(const auto own_matched, Matched(own_patterns, name.text));
      TUTTI_ASSIGN_OR_RETURN(const auto ours,
                             ValueParts(one, name.text, own_matched, own_patterns));
      if (!ours) return true;
      TUTTI_ASSIGN_OR_RETURN(const bool disjoint, Disjoint(*ours, *theirs, depth + 1));
      if (disjoint) return true;
    }
  }
  return false;
}

}  // namespace tutti::grammar
