#include <algorithm>

#include "grammar/limits.h"
#include "grammar/schema_reader.h"

namespace tutti::grammar {

absl::StatusOr<std::optional<NodeId>> SchemaReader::BuildArray(const PlainSchemas& schemas) {
  ArrayNode array;
  size_t first = 0;
  for (const JsonValue* schema : schemas) first = std::max(first, FirstItems(source_, *schema));
  const int64_t min = Least(schemas, "minItems");
  const int64_t max = Most(schemas, "maxItems");
  if (min > max) return std::nullopt;
  array.min = static_cast<uint32_t>(min);
  array.max = max > kEndless - 1 ? kEndless : static_cast<uint32_t>(max);
  array.more = true;
  // The one behind the first ones stands for all that follow.
  for (size_t i = 0; i <= first; ++i) {
    SchemaParts parts;
    for (const JsonValue* schema : schemas) {
      if (const JsonValue* item = ItemSchema(&source_, *schema, i)) parts.push_back({item, false});
    }
    TUTTI_RETURN_IF_ERROR(source_.Spend(24 + 12 * static_cast<int64_t>(schemas.size())));
    TUTTI_ASSIGN_OR_RETURN(const RuleId rule, RuleFor(std::move(parts)));
    if (i < first) {
      array.first.push_back(rule);
    } else {
      array.rest = rule;
    }
  }
  const auto index = static_cast<uint32_t>(graph_.arrays.size());
  const NodeId close = graph_.AddText("]", return_);
  array.close_empty = close;
  array.close = Gap(close);
  array.array = graph_.Add({NodeKind::kArray, 0, index});
  array.element = graph_.Add({NodeKind::kElement, array.array, index});
  array.comma = Gap(graph_.AddText(",", Gap(array.element, index + 1), index + 1), index + 1);
  const NodeId entry = graph_.AddText("[", Gap(array.array, index + 1), index + 1);
  graph_.arrays.push_back(std::move(array));
  return entry;
}

}  // namespace tutti::grammar
