#include "text/jinja/arithmetic.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/operations.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

absl::Status Invalid(std::string_view why) { return absl::InvalidArgumentError(Absl(why)); }

absl::Status NotSupported(std::string_view op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->IsUndefined()) return TypeError(*value, "");
  }
  return Invalid(absl::StrCat("unsupported operand types for ", Absl(op), ": '", Absl(a.TypeName()),
                              "' and '", Absl(b.TypeName()), "'"));
}

absl::StatusOr<int64_t> IntPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return Invalid("integer overflow");
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      return Invalid("integer overflow");
    }
  }
  return result;
}

// // and % round down, as Python's do.
absl::StatusOr<int64_t> IntDivide(std::string_view op, int64_t a, int64_t b) {
  if (b == 0) return Invalid("division by zero");
  if (b == -1) {
    if (op == "%") return 0;
    if (a == std::numeric_limits<int64_t>::min()) return Invalid("integer overflow");
    return -a;
  }
  const int64_t remainder = a % b;
  const bool down = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == "%") return down ? remainder + b : remainder;
  return a / b - (down ? 1 : 0);
}

absl::StatusOr<Value> IntArithmetic(std::string_view op, int64_t a, int64_t b, bool from_user) {
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (op == "/") {
    if (b == 0) return Invalid("division by zero");
    return Value::Float(static_cast<double>(a) / static_cast<double>(b), from_user);
  } else if (op == "**") {
    if (b < 0) {
      return Value::Float(std::pow(static_cast<double>(a), static_cast<double>(b)), from_user);
    }
    TUTTI_ASSIGN_OR_RETURN(result, IntPower(a, b));
  } else {
    TUTTI_ASSIGN_OR_RETURN(result, IntDivide(op, a, b));
  }
  if (overflow) return Invalid("integer overflow");
  return Value::Int(result, from_user);
}

absl::StatusOr<Value> FloatArithmetic(std::string_view op, double a, double b, bool from_user) {
  if (op == "+") return Value::Float(a + b, from_user);
  if (op == "-") return Value::Float(a - b, from_user);
  if (op == "*") return Value::Float(a * b, from_user);
  if (op == "**") return Value::Float(std::pow(a, b), from_user);
  if (b == 0) return Invalid("division by zero");
  if (op == "/") return Value::Float(a / b, from_user);
  if (op == "//") return Value::Float(std::floor(a / b), from_user);
  const double remainder = std::fmod(a, b);
  const bool down = remainder != 0 && (remainder < 0) != (b < 0);
  return Value::Float(down ? remainder + b : remainder, from_user);
}

absl::StatusOr<Value> Concatenate(const Text& a, const Text& b, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(a.size() + b.size()));
  TUTTI_RETURN_IF_ERROR(
      work->Charge(static_cast<int64_t>((a.runs().size() + b.runs().size()) * sizeof(Text::Run)) /
                   kTemplateBytesPerStep));
  Text out = a;
  out.Append(b);
  return Value::Str(std::move(out));
}

absl::StatusOr<Value> Repeat(const Text& text, int64_t times, Work* work) {
  Text out;
  if (times <= 0 || text.empty()) return Value::Str(std::move(out));
  if (times > static_cast<int64_t>(kTemplateOutputBytesMax / text.size())) {
    return work->ChargeBytes(kTemplateOutputBytesMax + 1);
  }
  TUTTI_RETURN_IF_ERROR(work->Charge(times));
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(text.memory() * static_cast<size_t>(times)));
  for (int64_t i = 0; i < times; ++i) out.Append(text);
  return Value::Str(std::move(out));
}

}  // namespace

absl::StatusOr<Value> Arithmetic(std::string_view op, const Value& a, const Value& b, Work* work) {
  if (a.IsNumber() && b.IsNumber()) {
    const bool from_user = a.number_from_user() || b.number_from_user();
    if (a.IsFloat() || b.IsFloat()) {
      return FloatArithmetic(op, a.AsDouble(), b.AsDouble(), from_user);
    }
    return IntArithmetic(op, a.AsInt(), b.AsInt(), from_user);
  }
  if (op == "+" && a.IsStr() && b.IsStr()) return Concatenate(a.text(), b.text(), work);
  if (op == "+" && a.IsList() && b.IsList() && a.list()->is_tuple == b.list()->is_tuple) {
    std::vector<Value> items = a.list()->items;
    TUTTI_RETURN_IF_ERROR(work->ChargeValues(items.size() + b.list()->items.size()));
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    return Value::MakeList(std::move(items), a.list()->is_tuple);
  }
  if (op == "*" && a.IsStr() && b.IsInt()) return Repeat(a.text(), b.AsInt(), work);
  if (op == "*" && a.IsInt() && b.IsStr()) return Repeat(b.text(), a.AsInt(), work);
  return NotSupported(op, a, b);
}

}  // namespace tutti::text::jinja
