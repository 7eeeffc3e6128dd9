#include <algorithm>
#include <numeric>

#include "grammar/limits.h"
#include "grammar/schema_reader.h"
#include "grammar/text_pieces.h"

namespace tutti::grammar {
namespace {

// A whole number as near as what is counted allows; `up`: the least one that is not smaller, else
// the largest that is not larger. Beyond kIntegerBoundMax by one or more where the number is.
WideInteger Nearest(const Decimal& d, bool up) {
  constexpr WideInteger kFar = WideInteger{kIntegerBoundMax} * 2;
  const int64_t top = d.exponent + static_cast<int64_t>(d.digits.size());
  if (top > 20) return d.negative ? -kFar : kFar;
  WideInteger magnitude = 0;
  for (int64_t i = 0; i < top; ++i) {
    const auto at = static_cast<size_t>(i);
    magnitude = magnitude * 10 + (at < d.digits.size() ? d.digits[at] - '0' : 0);
  }
  if (d.exponent < 0 && up != d.negative) ++magnitude;
  return d.negative ? -magnitude : magnitude;
}

}  // namespace

int64_t SchemaReader::Least(const PlainSchemas& schemas, std::string_view keyword) const {
  int64_t least = 0;
  for (const JsonValue* schema : schemas) {
    least = std::max(least, source_.Count(*schema, keyword).value_or(0));
  }
  return least;
}

int64_t SchemaReader::Most(const PlainSchemas& schemas, std::string_view keyword) const {
  int64_t most = StringMachine::kUnbounded;
  for (const JsonValue* schema : schemas) {
    most = std::min(most, source_.Count(*schema, keyword).value_or(most));
  }
  return most;
}

absl::Status SchemaReader::AddStringSpec(const JsonValue& schema, StringSpec* spec) {
  spec->min = std::max(spec->min, source_.Count(schema, "minLength").value_or(0));
  spec->max = std::min(spec->max, source_.Count(schema, "maxLength").value_or(spec->max));
  if (const JsonValue* pattern = schema.Find("pattern")) {
    TUTTI_ASSIGN_OR_RETURN(auto program, values_.Program(schema, "pattern", pattern->text, false));
    spec->parts.push_back({std::move(program)});
  }
  if (const JsonValue* format = schema.Find("format")) {
    const absl::StatusOr<std::string_view> expression = FormatExpression(format->text);
    if (!expression.ok()) return source_.Error(schema, "format", expression.status().message());
    if (expression->empty()) return absl::OkStatus();
    TUTTI_ASSIGN_OR_RETURN(auto program, values_.Program(schema, "format", *expression, true));
    spec->parts.push_back({std::move(program)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint32_t>> SchemaReader::AddString(const JsonValue& schema,
                                                                std::string_view keyword,
                                                                StringSpec spec) {
  TUTTI_RETURN_IF_ERROR(source_.Spend(8 + 8 * static_cast<int64_t>(spec.parts.size())));
  std::string name = Concat(spec.min, " ", spec.max);
  for (const StringPart& part : spec.parts) {
    name += Concat(part.matches ? " + " : " - ", reinterpret_cast<uintptr_t>(part.program.get()));
  }
  const auto known = strings_.find(name);
  if (known != strings_.end()) return known->second;
  absl::StatusOr<StringMachine> machine =
      StringMachine::Create(std::move(spec.parts), spec.min, spec.max, source_.work());
  if (absl::IsResourceExhausted(machine.status())) {
    return source_.TooMuch(schema, keyword, machine.status().message());
  }
  std::optional<uint32_t>& index = strings_[name];
  if (!machine.ok()) return index;  // no text
  index = static_cast<uint32_t>(graph_.strings.size());
  graph_.strings.push_back({*std::move(machine), TextForm::kJsonString});
  return index;
}

absl::StatusOr<std::optional<NodeId>> SchemaReader::BuildString(const PlainSchemas& schemas) {
  StringSpec spec;
  for (const JsonValue* schema : schemas) TUTTI_RETURN_IF_ERROR(AddStringSpec(*schema, &spec));
  const JsonValue& where = schemas.empty() ? source_.root() : *schemas.front();
  TUTTI_ASSIGN_OR_RETURN(const auto string, AddString(where, "pattern", std::move(spec)));
  if (!string) return std::nullopt;
  return graph_.AddText("\"", graph_.Add({NodeKind::kString, return_, *string}));
}

SchemaReader::Bounds SchemaReader::BoundsOf(const PlainSchemas& schemas) const {
  Bounds bounds;
  const auto narrow = [](std::optional<NumberMachine::Bound>* bound,
                         const std::optional<Decimal>& value, bool exclusive, int inner) {
    if (!value) return;
    if (!*bound) {
      *bound = {*value, exclusive};
      return;
    }
    const int order = Compare(*value, (*bound)->value) * inner;
    if (order > 0) *bound = {*value, exclusive};
    if (order == 0) (*bound)->exclusive |= exclusive;
  };
  for (const JsonValue* schema : schemas) {
    narrow(&bounds.low, source_.Number(*schema, "minimum"), false, 1);
    narrow(&bounds.low, source_.Number(*schema, "exclusiveMinimum"), true, 1);
    narrow(&bounds.high, source_.Number(*schema, "maximum"), false, -1);
    narrow(&bounds.high, source_.Number(*schema, "exclusiveMaximum"), true, -1);
  }
  return bounds;
}

// The least number of which all steps are divisors; nothing where there is none.
absl::StatusOr<std::optional<int64_t>> SchemaReader::StepOf(const PlainSchemas& schemas) {
  std::optional<int64_t> step;
  for (const JsonValue* schema : schemas) {
    const std::optional<Decimal> one = source_.Number(*schema, "multipleOf");
    if (!one) continue;
    if (!one->is_integer()) {
      return source_.Error(*schema, "multipleOf", "a fraction is not served");
    }
    const WideInteger wide = Nearest(*one, false);
    if (wide > kStepMax) {
      return source_.Error(*schema, "multipleOf", "is not served beyond 10^17");
    }
    const auto value = static_cast<int64_t>(wide);
    const int64_t before = step.value_or(1);
    const WideInteger product = WideInteger{before / std::gcd(before, value)} * value;
    if (product > kStepMax) {
      return source_.Error(*schema, "multipleOf", "together with others beyond 10^17");
    }
    step = static_cast<int64_t>(product);
  }
  return step;
}

absl::StatusOr<NumberMachine> SchemaReader::IntegerMachine(const PlainSchemas& schemas,
                                                           const Bounds& bounds) {
  NumberMachine machine{.kind = NumberMachine::Kind::kInteger};
  TUTTI_ASSIGN_OR_RETURN(const auto step, StepOf(schemas));
  machine.step = step.value_or(1);
  constexpr WideInteger kMost = kIntegerBoundMax;
  if (bounds.low) {
    const bool exact = bounds.low->value.is_integer();
    machine.min = Nearest(bounds.low->value, true) + (bounds.low->exclusive && exact ? 1 : 0);
  }
  if (bounds.high) {
    const bool exact = bounds.high->value.is_integer();
    machine.max = Nearest(bounds.high->value, false) - (bounds.high->exclusive && exact ? 1 : 0);
  }
  const auto beyond = [&](const std::optional<WideInteger>& bound) {
    return bound && (*bound > kMost || *bound < -kMost);
  };
  if (beyond(machine.min) || beyond(machine.max)) {
    const bool low = beyond(machine.min);
    return source_.Error(*schemas.front(), low ? "minimum" : "maximum",
                         "bounds beyond 2^64 are not served");
  }
  return machine;
}

absl::StatusOr<std::optional<NodeId>> SchemaReader::BuildNumber(const PlainSchemas& schemas,
                                                                uint8_t types) {
  for (const JsonValue* schema : schemas) {
    TUTTI_RETURN_IF_ERROR(source_.Spend(8 + 2 * std::min(schema->weight, kDecimalsWeight)));
  }
  const Bounds bounds = BoundsOf(schemas);
  TUTTI_ASSIGN_OR_RETURN(const auto step, StepOf(schemas));
  std::vector<NodeId> alternatives;
  const auto add = [&](NumberMachine machine) {
    if (!machine.possible()) return;
    graph_.numbers.push_back(std::move(machine));
    alternatives.push_back(
        graph_.Add({NodeKind::kNumber, return_, static_cast<uint32_t>(graph_.numbers.size()) - 1}));
  };
  if ((types & kNumberTypes) == kNumberTypes && !step && !bounds.low && !bounds.high) {
    add({.kind = NumberMachine::Kind::kAny});
  } else {
    if ((types & kIntegerType) != 0) {
      TUTTI_ASSIGN_OR_RETURN(const NumberMachine machine, IntegerMachine(schemas, bounds));
      add(machine);
    }
    if ((types & kFractionType) != 0 && !step) {
      add({.kind = NumberMachine::Kind::kDecimal, .low = bounds.low, .high = bounds.high});
    }
  }
  if (alternatives.empty()) return std::nullopt;
  return Split(std::move(alternatives));
}

}  // namespace tutti::grammar
