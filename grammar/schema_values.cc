#include "grammar/schema_values.h"

#include <algorithm>
#include <vector>

#include "base/utf8.h"
#include "grammar/limits.h"
#include "grammar/regex_parser.h"
#include "grammar/text_cursor.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
absl::StatusOr<std::shared_ptr<const RegexProgram>> SchemaValues::Program(
    const JsonValue& schema, std::string_view keyword, std::string_view expression, bool whole) {
  std::shared_ptr<const RegexProgram>& near = by_place_[{expression.data(), whole}];
  TUTTI_RETURN_IF_ERROR(source_.Spend(4));
  if (near != nullptr) return near;
  TUTTI_RETURN_IF_ERROR(source_.Spend(static_cast<int64_t>(16 + expression.size() / 4)));
  std::shared_ptr<const RegexProgram>& known = programs_[{std::string(expression), whole}];
  if (known != nullptr) return near = known;
  absl::StatusOr<RegexTree> tree = ParseRegex(expression, source_.work());
  if (absl::IsResourceExhausted(tree.status())) return tree.status();
  if (!tree.ok()) return source_.Error(schema, keyword, tree.status().message());
  absl::StatusOr<RegexProgram> program = RegexProgram::Compile(*tree, whole, source_.work());
  if (!program.ok()) return source_.TooMuch(schema, keyword, program.status().message());
  instructions_ += program->size();
  if (instructions_ > kRegexInstructionsAllMax) {
    return source_.TooMuch(schema, keyword, "the expressions of the schema are too large together");
  }
  known = std::make_shared<const RegexProgram>(*std::move(program));
  return near = known;
}

absl::StatusOr<bool> SchemaValues::Matches(const RegexProgram& program, std::string_view text) {
  RegexProgram::Scratch& scratch = scratch_[&program];
  RegexProgram::Reached reached = program.Start();
  TUTTI_RETURN_IF_ERROR(source_.Spend(static_cast<int64_t>(4 + reached.at.size() / 16)));
  for (TextCursor cursor(text); !cursor.AtEnd() && !program.IsUniversal(reached);) {
    const int64_t before = scratch.visited;
    reached = program.Step(reached.at, cursor.TakeCharacter(), &scratch);
    TUTTI_RETURN_IF_ERROR(source_.Spend(4 + (scratch.visited - before) / 4));
  }
  return reached.accepts;
}

absl::StatusOr<bool> SchemaValues::Has(const JsonValue& values, const JsonValue& value) {
  const auto [found, added] = values_.try_emplace(&values);
  if (added) {
    TUTTI_RETURN_IF_ERROR(source_.Spend(values.weight * int64_t{4}));
    for (const JsonValue& one : values.items) found->second.insert(SameText(one));
  }
  TUTTI_RETURN_IF_ERROR(source_.Spend(value.weight * int64_t{4}));
  return found->second.contains(SameText(value));
}

absl::StatusOr<bool> SchemaValues::Admits(const JsonValue& schema, const JsonValue& value,
                                          bool alone, int depth) {
  TUTTI_RETURN_IF_ERROR(source_.Spend(4 + schema.look_cost()));
  TUTTI_RETURN_IF_ERROR(source_.Check(schema));
  if (depth > kSourceDepthMax) return source_.TooMuch(schema, "", "a schema that goes round");
  if (schema.is(JsonValue::Kind::kBoolean)) return schema.boolean;
  if (!alone) {
    TUTTI_ASSIGN_OR_RETURN(const bool applied, AdmitsApplied(schema, value, depth));
    if (!applied) return false;
  }
  if (source_.draft7() && schema.Find("$ref") != nullptr) return true;
  if ((source_.Types(schema) & TypeOf(value)) == 0) return false;
  if (const JsonValue* constant = schema.Find("const")) {
    TUTTI_RETURN_IF_ERROR(source_.Spend(std::min(constant->weight, value.weight)));
    if (!SameValue(*constant, value)) return false;
  }
  if (const JsonValue* values = schema.Find("enum")) {
    TUTTI_ASSIGN_OR_RETURN(const bool has, Has(*values, value));
    if (!has) return false;
  }
  switch (value.kind) {
    case JsonValue::Kind::kString:
      return AdmitsString(schema, value);
    case JsonValue::Kind::kNumber:
      return AdmitsNumber(schema, value);
    case JsonValue::Kind::kArray:
      return AdmitsArray(schema, value, depth);
    case JsonValue::Kind::kObject:
      return AdmitsObject(schema, value, depth);
    default:
      return true;
  }
}

absl::StatusOr<bool> SchemaValues::AdmitsApplied(const JsonValue& schema, const JsonValue& value,
                                                 int depth) {
  if (schema.Find("$ref") != nullptr) {
    TUTTI_ASSIGN_OR_RETURN(const JsonValue* target, source_.Resolve(schema));
    TUTTI_ASSIGN_OR_RETURN(const bool admits, Admits(*target, value, false, depth + 1));
    if (!admits || source_.draft7()) return admits;
  }
  for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
    const JsonValue* list = schema.Find(keyword);
    if (list == nullptr) continue;
    size_t admitting = 0;
    for (size_t i = 0; i < list->items.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(source_.Spend(8));
      const JsonValue* branch = source_.Inside(schema, keyword, i);
      TUTTI_ASSIGN_OR_RETURN(const bool admits, Admits(*branch, value, false, depth + 1));
      admitting += admits ? 1 : 0;
    }
    if (keyword == "allOf" && admitting < list->items.size()) return false;
    if (keyword == "anyOf" && admitting == 0) return false;
    if (keyword == "oneOf" && admitting != 1) return false;
  }
  return true;
}

absl::StatusOr<bool> SchemaValues::AdmitsString(const JsonValue& schema, const JsonValue& value) {
  TUTTI_RETURN_IF_ERROR(source_.Spend(value.weight));
  const auto length = static_cast<int64_t>(CountCharacters(value.text));
  if (length < source_.Count(schema, "minLength").value_or(0)) return false;
  if (length > source_.Count(schema, "maxLength").value_or(INT64_MAX)) return false;
  if (const JsonValue* pattern = schema.Find("pattern")) {
    TUTTI_ASSIGN_OR_RETURN(const auto program, Program(schema, "pattern", pattern->text, false));
    TUTTI_ASSIGN_OR_RETURN(const bool matches, Matches(*program, value.text));
    if (!matches) return false;
  }
  if (const JsonValue* format = schema.Find("format")) {
    const absl::StatusOr<std::string_view> expression = FormatExpression(format->text);
    if (!expression.ok()) return source_.Error(schema, "format", expression.status().message());
    if (expression->empty()) return true;
    TUTTI_ASSIGN_OR_RETURN(const auto program, Program(schema, "format", *expression, true));
    return Matches(*program, value.text);
  }
  return true;
}

absl::StatusOr<bool> SchemaValues::AdmitsNumber(const JsonValue& schema, const JsonValue& value) {
  // The number, and what bounds it.
  TUTTI_RETURN_IF_ERROR(source_.Spend(value.weight + std::min(schema.weight, kDecimalsWeight)));
  const Decimal number = ToDecimal(value.text);
  const auto beside = [&](std::string_view keyword, bool above, bool equal) {
    const std::optional<Decimal> bound = source_.Number(schema, keyword);
    if (!bound) return true;
    const int order = Compare(number, *bound);
    return order == 0 ? equal : (order > 0) == above;
  };
  if (!beside("minimum", true, true) || !beside("exclusiveMinimum", true, false) ||
      !beside("maximum", false, true) || !beside("exclusiveMaximum", false, false)) {
    return false;
  }
  const std::optional<Decimal> step = source_.Number(schema, "multipleOf");
  if (!step) return true;
  if (number.digits.empty()) return true;
  if (!number.is_integer()) return false;
  // A remainder, digit by digit; fractions are refused before.
  int64_t divisor = 0;
  if (!step->is_integer() || step->exponent + step->digits.size() > 17 ||
      !ReadNumber(step->digits + std::string(static_cast<size_t>(step->exponent), '0'), &divisor) ||
      number.exponent > kNumberDigitsMax) {
    return false;
  }
  int64_t remainder = 0;
  for (const char digit : number.digits + std::string(static_cast<size_t>(number.exponent), '0')) {
    remainder = (remainder * 10 + (digit - '0')) % divisor;
  }
  return remainder == 0;
}

absl::StatusOr<bool> SchemaValues::AdmitsArray(const JsonValue& schema, const JsonValue& value,
                                               int depth) {
  const auto count = static_cast<int64_t>(value.items.size());
  if (count < source_.Count(schema, "minItems").value_or(0)) return false;
  if (count > source_.Count(schema, "maxItems").value_or(INT64_MAX)) return false;
  for (size_t i = 0; i < value.items.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(source_.Spend(8));
    const JsonValue* item = ItemSchema(&source_, schema, i);
    if (item == nullptr) continue;
    TUTTI_ASSIGN_OR_RETURN(const bool admits, Admits(*item, value.items[i], false, depth + 1));
    if (!admits) return false;
  }
  return true;
}

absl::StatusOr<bool> SchemaValues::AdmitsObject(const JsonValue& schema, const JsonValue& value,
                                                int depth) {
  const auto count = static_cast<int64_t>(value.members.size());
  if (count < source_.Count(schema, "minProperties").value_or(0)) return false;
  if (count > source_.Count(schema, "maxProperties").value_or(INT64_MAX)) return false;
  if (const JsonValue* required = schema.Find("required")) {
    TUTTI_RETURN_IF_ERROR(
        source_.Spend(static_cast<int64_t>(required->items.size()) * value.find_cost()));
    for (const JsonValue& name : required->items) {
      if (value.Find(name.text) == nullptr) return false;
    }
  }
  for (const JsonValue::Member& member : value.members) {
    TUTTI_ASSIGN_OR_RETURN(const bool admits, AdmitsMember(schema, member, depth));
    if (!admits) return false;
  }
  return true;
}

absl::StatusOr<bool> SchemaValues::AdmitsMember(const JsonValue& schema,
                                                const JsonValue::Member& member, int depth) {
  const JsonValue* properties = schema.Find("properties");
  TUTTI_RETURN_IF_ERROR(source_.Spend(12 + static_cast<int64_t>(member.name.size() / 8) +
                                      (properties == nullptr ? 0 : properties->find_cost())));
  bool declared = false;
  if (const JsonValue* property = source_.Inside(schema, "properties", member.name)) {
    declared = true;
    TUTTI_ASSIGN_OR_RETURN(const bool admits, Admits(*property, member.value, false, depth + 1));
    if (!admits) return false;
  }
  if (const JsonValue* patterns = schema.Find("patternProperties")) {
    for (const JsonValue::Member& pattern : patterns->members) {
      TUTTI_ASSIGN_OR_RETURN(const auto program,
                             Program(schema, "patternProperties", pattern.name, false));
      TUTTI_ASSIGN_OR_RETURN(const bool matches, Matches(*program, member.name));
      if (!matches) continue;
      declared = true;
      const JsonValue* inside = source_.Inside(schema, "patternProperties", pattern.name);
      TUTTI_ASSIGN_OR_RETURN(const bool admits, Admits(*inside, member.value, false, depth + 1));
      if (!admits) return false;
    }
  }
  if (const JsonValue* names = source_.Inside(schema, "propertyNames")) {
    const JsonValue name = NameValue(member.name);
    TUTTI_ASSIGN_OR_RETURN(const bool admits, Admits(*names, name, false, depth + 1));
    if (!admits) return false;
  }
  const JsonValue* others = source_.Inside(schema, "additionalProperties");
  if (declared || others == nullptr) return true;
  return Admits(*others, member.value, false, depth + 1);
}

JsonValue NameValue(const std::string& name) {
  return {.kind = JsonValue::Kind::kString,
          .weight = static_cast<uint32_t>(2 + name.size() / 8),
          .text = name};
}

size_t FirstItems(const SchemaSource& source, const JsonValue& schema) {
  const JsonValue* prefix = source.has_prefix_items() ? schema.Find("prefixItems") : nullptr;
  if (prefix != nullptr) return prefix->items.size();
  const JsonValue* items = schema.Find("items");
  return items != nullptr && items->is(JsonValue::Kind::kArray) ? items->items.size() : 0;
}

const JsonValue* ItemSchema(SchemaSource* source, const JsonValue& schema, size_t index) {
  const bool prefix = source->has_prefix_items() && schema.Find("prefixItems") != nullptr;
  const JsonValue* items = schema.Find("items");
  const bool list = !prefix && items != nullptr && items->is(JsonValue::Kind::kArray);
  if (index < FirstItems(*source, schema)) {
    return source->Inside(schema, prefix ? "prefixItems" : "items", index);
  }
  return source->Inside(schema, list ? "additionalItems" : "items");
}

}  // namespace tutti::grammar
