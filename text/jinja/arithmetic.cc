#include "text/jinja/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/markup.h"
#include "text/jinja/operations.h"
#include "text/jinja/percent_format.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

absl::Status NotSupported(std::string_view op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->IsUndefined()) return TypeError(*value, "");
  }
  return Invalid(absl::StrCat("unsupported operand types for ", Absl(op), ": '", Absl(a.TypeName()),
                              "' and '", Absl(b.TypeName()), "'"));
}

// // and % round down, as Python's do. Nothing where the result has more than 64 bits.
std::optional<int64_t> IntDivide(std::string_view op, int64_t a, int64_t b) {
  if (b == -1) {
    if (op == "%") return 0;
    if (a == std::numeric_limits<int64_t>::min()) return std::nullopt;
    return -a;
  }
  const int64_t remainder = a % b;
  const bool down = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == "%") return down ? remainder + b : remainder;
  return a / b - (down ? 1 : 0);
}

// Nothing where 64 bits are not enough.
std::optional<int64_t> SmallArithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflow = true;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &result);
  if (op == "-") overflow = __builtin_sub_overflow(a, b, &result);
  if (op == "*") overflow = __builtin_mul_overflow(a, b, &result);
  if ((op == "//" || op == "%") && b != 0) return IntDivide(op, a, b);
  return overflow ? std::nullopt : std::optional<int64_t>(result);
}

absl::StatusOr<Value> FloatArithmetic(std::string_view op, double a, double b, bool from_user);

absl::StatusOr<Value> AsFloats(std::string_view op, const Value& a, const Value& b,
                               bool from_user) {
  TUTTI_ASSIGN_OR_RETURN(const double left, ToDouble(a));
  TUTTI_ASSIGN_OR_RETURN(const double right, ToDouble(b));
  return FloatArithmetic(op, left, right, from_user);
}

absl::StatusOr<Value> IntArithmetic(std::string_view op, const Value& a, const Value& b,
                                    bool from_user, Work* work) {
  const bool negative = b.IsBig() ? b.digits()[0] == '-' : b.AsInt() < 0;
  if (op == "/") {
    TUTTI_RETURN_IF_ERROR(work->Charge(StepsOf(op, a, b)));
    TUTTI_ASSIGN_OR_RETURN(const double quotient, DivideIntegers(a, b));
    return Value::Float(quotient, from_user);
  }
  if (op == "**" && negative) return AsFloats(op, a, b, from_user);
  if (!a.IsBig() && !b.IsBig()) {
    const std::optional<int64_t> small = SmallArithmetic(op, a.AsInt(), b.AsInt());
    if (small.has_value()) return Value::Int(*small, from_user);
  }
  TUTTI_RETURN_IF_ERROR(work->Charge(StepsOf(op, a, b)));
  return BigArithmetic(op, a, b, from_user);
}

absl::StatusOr<Value> FloatArithmetic(std::string_view op, double a, double b, bool from_user) {
  if (op == "+") return Value::Float(a + b, from_user);
  if (op == "-") return Value::Float(a - b, from_user);
  if (op == "*") return Value::Float(a * b, from_user);
  if (op == "**") {
    if (a == 0 && b < 0) return Invalid("0.0 cannot be raised to a negative power");
    const double power = std::pow(a, b);
    if (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) {
      return Invalid("a power that is a complex number is not supported");
    }
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) {
      return Invalid("(34, 'Numerical result out of range')");
    }
    return Value::Float(power, from_user);
  }
  if (b == 0) return Invalid("division by zero");
  if (op == "/") return Value::Float(a / b, from_user);
  // As Python's divmod: the quotient follows from the remainder.
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((remainder < 0) != (b < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (op == "%") return Value::Float(remainder, from_user);
  if (quotient == 0) return Value::Float(std::copysign(0.0, a / b), from_user);
  const double down = std::floor(quotient);
  return Value::Float(quotient - down > 0.5 ? down + 1 : down, from_user);
}

absl::StatusOr<Value> Concatenate(const Value& left, const Value& right, Work* work) {
  const bool markup = left.IsMarkup() || right.IsMarkup();
  Text a = left.text(), b = right.text();
  if (markup) {  // the one that is not markup is escaped
    TUTTI_ASSIGN_OR_RETURN(a, EscapeHtml(left, work));
    TUTTI_ASSIGN_OR_RETURN(b, EscapeHtml(right, work));
  }
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(a.size() + b.size()));
  TUTTI_RETURN_IF_ERROR(
      work->Charge(static_cast<int64_t>((a.runs().size() + b.runs().size()) * sizeof(Text::Run)) /
                   kTemplateBytesPerStep));
  a.Append(b);
  return Value::Str(std::move(a), markup);
}

absl::StatusOr<Value> Repeat(const Value& value, int64_t times, Work* work) {
  const Text& text = value.text();
  Text out;
  if (times <= 0 || text.empty()) return Value::Str(std::move(out), value.IsMarkup());
  if (times > static_cast<int64_t>(kTemplateOutputBytesMax / text.size())) {
    return work->ChargeBytes(kTemplateOutputBytesMax + 1);
  }
  TUTTI_RETURN_IF_ERROR(work->Charge(times));
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(text.memory() * static_cast<size_t>(times)));
  for (int64_t i = 0; i < times; ++i) out.Append(text);
  return Value::Str(std::move(out), value.IsMarkup());
}

absl::StatusOr<Value> RepeatList(const List& list, List::Kind kind, int64_t times, Work* work) {
  std::vector<Value> items;
  if (list.items.empty()) times = 0;
  for (int64_t i = 0; i < times; ++i) {
    TUTTI_RETURN_IF_ERROR(work->Charge(list.weight));
    TUTTI_RETURN_IF_ERROR(work->ChargeValues(list.items.size()));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return Value::MakeList(std::move(items), kind);
}

// The kind of sequence that a list or tuple gives when it is added to or repeated; nothing for
// others.
std::optional<List::Kind> SequenceKind(const Value& value) {
  if (!value.IsList() || value.list()->kind > List::kGroup) return std::nullopt;
  return value.list()->is_tuple() ? List::kTuple : List::kList;
}

}  // namespace

int64_t StepsOf(std::string_view op, const Value& a, const Value& b) {
  constexpr int64_t kSmallDigits = 20;  // of 64 bits with a sign
  const auto digits = [](const Value& value) {
    return value.IsBig() ? static_cast<int64_t>(value.digits().size()) : kSmallDigits;
  };
  int64_t all = digits(a) + digits(b);
  // A power has the digits of its base so many times; beyond the limit it is refused.
  if (op == "**" && !b.IsBig() && b.AsInt() > 0) {
    all += std::min(b.AsInt(), kTemplateIntegerDigitsMax) * digits(a);
  }
  all = std::min(all, 2 * kTemplateIntegerDigitsMax);
  return all * all / kTemplateIntegerDigitsMax;
}

absl::StatusOr<Value> Arithmetic(std::string_view op, const Value& a, const Value& b, Work* work) {
  if (a.IsNumber() && b.IsNumber()) {
    const bool from_user = a.number_from_user() || b.number_from_user();
    if (a.IsFloat() || b.IsFloat()) return AsFloats(op, a, b, from_user);
    return IntArithmetic(op, a, b, from_user, work);
  }
  if (op == "+" && a.IsStr() && b.IsStr()) return Concatenate(a, b, work);
  if (op == "+" && a.IsList() && b.IsList() && SequenceKind(a) == SequenceKind(b) &&
      SequenceKind(a).has_value()) {
    std::vector<Value> items = a.list()->items;
    TUTTI_RETURN_IF_ERROR(work->ChargeValues(items.size() + b.list()->items.size()));
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    return Value::MakeList(std::move(items), *SequenceKind(a));
  }
  if (op == "*") {
    const bool swapped = a.IsInt() || a.IsBool();
    const Value& sequence = swapped ? b : a;
    const Value& times = swapped ? a : b;
    if (sequence.IsStr() && (times.IsInt() || times.IsBool())) {
      return Repeat(sequence, times.AsInt(), work);
    }
    if ((times.IsInt() || times.IsBool()) && SequenceKind(sequence).has_value()) {
      return RepeatList(*sequence.list(), *SequenceKind(sequence), times.AsInt(), work);
    }
  }
  if (op == "%" && a.IsStr()) return PercentFormat(a, b, work);
  return NotSupported(op, a, b);
}

}  // namespace tutti::text::jinja
