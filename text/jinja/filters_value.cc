// Filters of numbers, of JSON, and of any value.
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/jinja/arithmetic.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/builtin_arguments.h"
#include "text/jinja/builtin_tables.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/limits.h"
#include "text/template_json.h"

namespace tutti::text::jinja {
namespace {

bool FromUser(const Value& value) {
  return value.IsStr() ? value.text().AnyFromUser() : value.number_from_user();
}

absl::StatusOr<Value> ToJsonFilter(const Value& self, const Call& call) {
  enum { kEnsureAscii, kIndent, kSeparators, kSortKeys };
  JsonStyle style;
  style.ensure_ascii = BoolArgument(call, kEnsureAscii);
  style.sort_keys = BoolArgument(call, kSortKeys);
  if (call.HasValue(kIndent)) {
    const Value& indent = call.values[kIndent];
    if (indent.IsStr()) {
      style.indent = std::string(indent.str());
    } else {
      TUTTI_ASSIGN_OR_RETURN(const int64_t width, IntArgument(call, kIndent, 0));
      if (width > kTemplateFormatWidthMax) {
        return absl::InvalidArgumentError(
            absl::StrCat("tojson: an indent beyond ", kTemplateFormatWidthMax));
      }
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
  }
  if (call.HasValue(kSeparators)) {
    const Value& pair = call.values[kSeparators];
    if (!pair.IsList() || pair.list()->items.size() != 2 || !pair.list()->items[0].IsStr() ||
        !pair.list()->items[1].IsStr()) {
      return absl::InvalidArgumentError("tojson: separators are not two strings");
    }
    style.item_separator = pair.list()->items[0].str();
    style.key_separator = pair.list()->items[1].str();
  }
  TUTTI_ASSIGN_OR_RETURN(Text text, ToJson(self, style, call.work));
  return Value::Str(std::move(text));
}

// json.loads. transformers has no such filter; templates that use it were written for others.
absl::StatusOr<Value> FromJsonFilter(const Value& self, const Call& call) {
  if (!self.IsStr()) return TypeError(self, "is not JSON text");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory() * 16));
  const nlohmann::ordered_json json = ParseTemplateJson(self.str());
  if (json.is_discarded()) return absl::InvalidArgumentError("fromjson: not valid JSON");
  return Value::FromJson(json, "fromjson", self.text().AnyFromUser());
}

absl::StatusOr<Value> Default(const Value& self, const Call& call) {
  const bool replace = self.IsUndefined() || (BoolArgument(call, 1) && !self.Truth());
  if (!replace) return self;
  return call.Has(0) ? call.values[0] : Value::Literal("");
}

absl::StatusOr<Value> Attr(const Value& self, const Call& call) {
  if (self.IsUndefined()) return TypeError(self, "");
  TUTTI_ASSIGN_OR_RETURN(const Text name, TextArgument(call, 0));
  return GetOnlyAttribute(self, name.bytes(), call.work);
}

absl::StatusOr<Value> Abs(const Value& self, const Call& call) {
  if (self.IsFloat()) return Value::Float(std::fabs(self.AsDouble()), self.number_from_user());
  if (!self.IsNumber()) return TypeError(self, "has no absolute value");
  const bool negative = CompareIntegers(self, Value::Int(0)) < 0;
  return Arithmetic(negative ? "-" : "+", Value::Int(0), self, call.work);
}

// The digits of a number, without the underscores that Python allows between them; nothing when one
// stands elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const auto is_digit = [&](size_t at) {
      return at < text.size() && absl::ascii_isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return out;
}

// int(text, base) of Python; nothing where it raises an error.
absl::StatusOr<std::optional<Value>> ReadInteger(const Text& text, int base) {
  const Text stripped = Strip(text, std::nullopt, Side::kBoth);
  std::string_view rest = stripped.bytes();
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const char letter = rest.size() > 2 && rest[0] == '0' ? absl::ascii_tolower(rest[1]) : '\0';
  const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (prefix != 0 && (base == prefix || base == 0)) {
    rest.remove_prefix(rest[2] == '_' ? 3 : 2);
    base = prefix;
  }
  if (base == 0) base = 10;
  const std::optional<std::string> digits = WithoutUnderscores(rest);
  if (!digits.has_value() || digits->empty()) return std::optional<Value>();
  for (const char c : *digits) {
    const auto u = static_cast<unsigned char>(c);
    const int digit = absl::ascii_isdigit(u)   ? c - '0'
                      : absl::ascii_isalpha(u) ? absl::ascii_tolower(u) - 'a' + 10
                                               : 99;
    if (digit >= base) return std::optional<Value>();
  }
  TUTTI_ASSIGN_OR_RETURN(Value value, IntegerFromDigits(*digits, base, text.AnyFromUser()));
  if (!negative) return std::optional<Value>(std::move(value));
  TUTTI_ASSIGN_OR_RETURN(Value minus, BigArithmetic("-", Value::Int(0), value, text.AnyFromUser()));
  return std::optional<Value>(std::move(minus));
}

// float(text) of Python; nothing where it raises an error.
std::optional<double> ReadFloat(const Text& text) {
  const Text stripped = Strip(text, std::nullopt, Side::kBoth);
  const std::optional<std::string> digits = WithoutUnderscores(stripped.bytes());
  double number = 0;
  if (!digits.has_value() || digits->empty() || digits->find_first_of("xX(") != std::string::npos ||
      !absl::SimpleAtod(*digits, &number)) {
    return std::nullopt;
  }
  return number;
}

absl::StatusOr<Value> IntFilter(const Value& self, const Call& call) {
  const bool from_user = FromUser(self);
  const Value fallback = call.Has(0) ? call.values[0] : Value::Int(0);
  if (self.IsUndefined()) return TypeError(self, "");
  if (self.IsBool()) return Value::Int(self.AsInt());
  if (self.IsInteger()) return self;
  std::optional<double> number;
  if (self.IsFloat()) number = self.AsDouble();
  if (self.IsStr()) {
    TUTTI_ASSIGN_OR_RETURN(const int64_t base, IntArgument(call, 1, 10));
    if (base != 0 && (base < 2 || base > 36)) return fallback;
    if (base > 16) return absl::InvalidArgumentError("int: a base beyond 16 is not supported");
    TUTTI_ASSIGN_OR_RETURN(const std::optional<Value> integer,
                           ReadInteger(self.text(), static_cast<int>(base)));
    if (integer.has_value()) return *integer;
    number = ReadFloat(self.text());
  }
  if (!number.has_value() || !std::isfinite(*number)) return fallback;
  return IntegerFromDouble(*number, from_user);
}

absl::StatusOr<Value> FloatFilter(const Value& self, const Call& call) {
  if (self.IsUndefined()) return TypeError(self, "");
  if (self.IsNumber()) return Value::Float(self.AsDouble(), self.number_from_user());
  const std::optional<double> number = self.IsStr() ? ReadFloat(self.text()) : std::nullopt;
  if (number.has_value()) return Value::Float(*number, self.text().AnyFromUser());
  return call.Has(0) ? call.values[0] : Value::Float(0);
}

// Python's round(): to the nearest of `precision` digits, as they are written.
absl::StatusOr<Value> RoundCommon(const Value& self, int64_t precision) {
  const bool from_user = self.number_from_user();
  if (!self.IsFloat()) {
    if (precision >= 0) return self.IsBool() ? Value::Int(self.AsInt()) : self;
    // To a multiple of a power of ten, an even one of it at half.
    TUTTI_ASSIGN_OR_RETURN(const Value power,
                           BigArithmetic("**", Value::Int(10), Value::Int(-precision), from_user));
    TUTTI_ASSIGN_OR_RETURN(Value quotient, BigArithmetic("//", self, power, from_user));
    TUTTI_ASSIGN_OR_RETURN(const Value rest, BigArithmetic("%", self, power, from_user));
    TUTTI_ASSIGN_OR_RETURN(const Value twice, BigArithmetic("*", rest, Value::Int(2), from_user));
    TUTTI_ASSIGN_OR_RETURN(const Value odd, BigArithmetic("%", quotient, Value::Int(2), from_user));
    const int half = CompareIntegers(twice, power);
    if (half > 0 || (half == 0 && odd.Truth())) {
      TUTTI_ASSIGN_OR_RETURN(quotient, BigArithmetic("+", quotient, Value::Int(1), from_user));
    }
    return BigArithmetic("*", quotient, power, from_user);
  }
  const double number = self.AsDouble();
  constexpr int64_t kDigits = 323;  // of the smallest number
  if (!std::isfinite(number) || precision > kDigits) return self;
  if (precision < -kDigits) return Value::Float(std::copysign(0.0, number), from_user);
  if (precision < 0) {
    const double power = std::pow(10.0, static_cast<double>(-precision));
    const double scaled = number / power;
    double rounded = std::round(scaled);
    if (std::fabs(scaled - rounded) == 0.5) rounded = 2.0 * std::round(scaled / 2.0);
    return Value::Float(rounded * power, from_user);
  }
  double rounded = 0;
  (void)absl::SimpleAtod(absl::StrFormat("%.*f", static_cast<int>(precision), number), &rounded);
  return Value::Float(rounded, from_user);
}

absl::StatusOr<Value> Round(const Value& self, const Call& call) {
  enum { kPrecision, kMethod };
  std::string_view method = "common";
  if (call.Has(kMethod)) method = call.values[kMethod].IsStr() ? call.values[kMethod].str() : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    return absl::InvalidArgumentError("method must be common, ceil or floor");
  }
  if (!self.IsNumber()) return TypeError(self, "cannot be rounded");
  TUTTI_ASSIGN_OR_RETURN(const int64_t precision, IntArgument(call, kPrecision, 0));
  if (precision > kTemplateFormatWidthMax || precision < -kTemplateFormatWidthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("round: a precision beyond ", kTemplateFormatWidthMax));
  }
  if (method == "common") return RoundCommon(self, precision);
  TUTTI_ASSIGN_OR_RETURN(const Value power,
                         Arithmetic("**", Value::Int(10), Value::Int(precision), call.work));
  TUTTI_ASSIGN_OR_RETURN(const Value scaled, Arithmetic("*", self, power, call.work));
  Value whole = scaled;
  if (scaled.IsFloat()) {
    const double number =
        method == "ceil" ? std::ceil(scaled.AsDouble()) : std::floor(scaled.AsDouble());
    TUTTI_ASSIGN_OR_RETURN(whole, IntegerFromDouble(number, self.number_from_user()));
  }
  return Arithmetic("/", whole, power, call.work);
}

}  // namespace

const std::vector<Builtin>& ValueFilters() {
  static const auto* const table = new std::vector<Builtin>{
      {"abs", Abs},
      {"attr", Attr, {"name"}, 1},
      {"d", Default, {"default_value", "boolean"}},
      {"default", Default, {"default_value", "boolean"}},
      {"float", FloatFilter, {"default"}},
      {"from_json", FromJsonFilter},
      {"fromjson", FromJsonFilter},
      {"int", IntFilter, {"default", "base"}},
      {"round", Round, {"precision", "method"}},
      {"tojson", ToJsonFilter, {"ensure_ascii", "indent", "separators", "sort_keys"}},
  };
  return *table;
}

}  // namespace tutti::text::jinja
