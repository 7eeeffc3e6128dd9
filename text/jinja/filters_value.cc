// Filters of numbers, of JSON, and of any value.
#include <cmath>
#include <nlohmann/json.hpp>

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
#include "text/jinja/number_text.h"
#include "text/jinja/operations.h"
#include "text/jinja/strings.h"
#include "text/limits.h"
#include "text/template_json.h"

namespace tutti::text::jinja {
namespace {

bool FromUser(const Value& value) {
  return value.IsStr() ? value.text().AnyFromUser() : value.number_from_user();
}

bool HoldsPairs(const Value& value) {
  if (value.IsDict()) return !value.dict()->items.empty();
  return value.IsList() &&
         std::any_of(value.list()->items.begin(), value.list()->items.end(), HoldsPairs);
}

// As json.dumps takes them: what is no string is refused where it would be written, and without an
// indent, where the parts are put together by another encoder, wherever more than a string is.
absl::Status SetSeparators(const std::vector<Value>& pair, const Value& self, JsonStyle* style) {
  if (pair.size() != 2) return absl::InvalidArgumentError("tojson: separators are not two");
  const bool holds_items = (self.IsList() && !self.list()->items.empty()) || HoldsPairs(self);
  const bool needed[] = {style->indent.has_value() ? holds_items : !self.IsStr(),
                         style->indent.has_value() ? HoldsPairs(self) : !self.IsStr()};
  std::optional<std::string>* const separators[] = {&style->item_separator, &style->key_separator};
  for (size_t i = 0; i < pair.size(); ++i) {
    if (pair[i].IsStr()) {
      *separators[i] = std::string(pair[i].str());
    } else if (needed[i]) {
      return absl::InvalidArgumentError("tojson: a separator is no string");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> ToJsonFilter(const Value& self, const Call& call) {
  enum { kEnsureAscii, kIndent, kSeparators, kSortKeys };
  JsonStyle style;
  style.ensure_ascii = BoolArgument(call, kEnsureAscii);
  style.sort_keys = BoolArgument(call, kSortKeys);
  if (call.HasValue(kIndent) && !self.IsStr()) {  // a string has no lines
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
    TUTTI_ASSIGN_OR_RETURN(const auto pair, Iterate(call.values[kSeparators], call.work));
    TUTTI_RETURN_IF_ERROR(SetSeparators(pair->items, self, &style));
  }
  TUTTI_ASSIGN_OR_RETURN(Text text, ToJson(self, style, call.work));
  return Value::Str(std::move(text));
}

// json.loads. transformers has no such filter; templates that use it were written for others.
absl::StatusOr<Value> FromJsonFilter(const Value& self, const Call& call) {
  if (!self.IsStr()) return TypeError(self, "is not JSON text");
  TUTTI_RETURN_IF_ERROR(call.work->ChargeBytes(self.text().memory() * 16));
  const TemplateJson json = ParseTemplateJson(self.str());
  if (json->is_discarded()) return absl::InvalidArgumentError("fromjson: not valid JSON");
  return Value::FromJson(*json, "fromjson", self.text().AnyFromUser());
}

absl::StatusOr<Value> Default(const Value& self, const Call& call) {
  const bool replace = self.IsUndefined() || (BoolArgument(call, 1) && !self.Truth());
  if (!replace) return self;
  return call.Has(0) ? call.values[0] : Value::Literal("");
}

absl::StatusOr<Value> Attr(const Value& self, const Call& call) {
  if (self.IsUndefined()) return TypeError(self, "");
  if (!call.values[0].IsStr()) return BadArgument(call.values[0], "str");
  TUTTI_ASSIGN_OR_RETURN(const Text name, TextArgument(call, 0));
  return GetOnlyAttribute(self, name.bytes(), call.work);
}

absl::StatusOr<Value> Abs(const Value& self, const Call& call) {
  if (self.IsFloat()) return Value::Float(std::fabs(self.AsDouble()), self.number_from_user());
  if (!self.IsNumber()) return TypeError(self, "has no absolute value");
  const bool negative = CompareIntegers(self, Value::Int(0)) < 0;
  return Arithmetic(negative ? "-" : "+", Value::Int(0), self, call.work);
}

absl::StatusOr<Value> IntFilter(const Value& self, const Call& call) {
  const bool from_user = FromUser(self);
  const Value fallback = call.Has(0) ? call.values[0] : Value::Int(0);
  if (self.IsUndefined()) return TypeError(self, "");
  if (self.IsBool()) return Value::Int(self.AsInt());
  if (self.IsInteger()) return self;
  std::optional<double> number;
  if (self.IsFloat()) {
    number = self.AsDouble();
    if (std::isinf(*number)) return IntegerFromDouble(*number, from_user);  // an error
  }
  if (self.IsStr()) {
    TUTTI_RETURN_IF_ERROR(ChargeNumber(self.text(), call.work));
    // A base that is none makes it no integer, but it may still be a number.
    const bool has_base = !call.Has(1) || call.values[1].IsInt() || call.values[1].IsBool();
    if (has_base) {
      const int64_t base = call.Has(1) ? call.values[1].AsInt() : 10;
      TUTTI_ASSIGN_OR_RETURN(const std::optional<Value> integer, ReadInteger(self.text(), base));
      if (integer.has_value()) return *integer;
    }
    number = ReadFloat(self.text());
  }
  if (!number.has_value() || !std::isfinite(*number)) return fallback;
  return IntegerFromDouble(*number, from_user);
}

absl::StatusOr<Value> FloatFilter(const Value& self, const Call& call) {
  if (self.IsUndefined()) return TypeError(self, "");
  if (self.IsNumber()) {
    TUTTI_ASSIGN_OR_RETURN(const double number, ToDouble(self));
    return Value::Float(number, self.number_from_user());
  }
  if (self.IsStr()) TUTTI_RETURN_IF_ERROR(ChargeNumber(self.text(), call.work));
  const std::optional<double> number = self.IsStr() ? ReadFloat(self.text()) : std::nullopt;
  if (number.has_value()) return Value::Float(*number, self.text().AnyFromUser());
  return call.Has(0) ? call.values[0] : Value::Float(0);
}

// To a multiple of 10 ** `digits`, an even one where it lies in the middle. `beyond`: a little more
// than the integer, away from zero.
absl::StatusOr<Value> RoundToTens(const Value& integer, int64_t digits, bool beyond, bool from_user,
                                  Work* work) {
  const auto compute = [&](std::string_view op, const Value& a,
                           const Value& b) -> absl::StatusOr<Value> {
    TUTTI_RETURN_IF_ERROR(work->Charge(StepsOf(op, a, b)));
    return BigArithmetic(op, a, b, from_user);
  };
  TUTTI_ASSIGN_OR_RETURN(const Value power, compute("**", Value::Int(10), Value::Int(digits)));
  TUTTI_ASSIGN_OR_RETURN(Value quotient, compute("//", integer, power));
  TUTTI_ASSIGN_OR_RETURN(const Value rest, compute("%", integer, power));
  TUTTI_ASSIGN_OR_RETURN(const Value twice, compute("*", rest, Value::Int(2)));
  TUTTI_ASSIGN_OR_RETURN(const Value odd, compute("%", quotient, Value::Int(2)));
  int half = CompareIntegers(twice, power);
  if (half == 0 && beyond) half = CompareIntegers(integer, Value::Int(0)) < 0 ? -1 : 1;
  if (half > 0 || (half == 0 && odd.Truth())) {
    TUTTI_ASSIGN_OR_RETURN(quotient, compute("+", quotient, Value::Int(1)));
  }
  return compute("*", quotient, power);
}

// Python's round(): to the nearest of `precision` digits, as they are written.
absl::StatusOr<Value> RoundCommon(const Value& self, int64_t precision, Work* work) {
  const bool from_user = self.number_from_user();
  if (!self.IsFloat()) {
    if (precision >= 0) return self.IsBool() ? Value::Int(self.AsInt()) : self;
    return RoundToTens(self, -precision, /*beyond=*/false, from_user, work);
  }
  const double number = self.AsDouble();
  constexpr int64_t kDigits = 323;   // of the smallest number
  constexpr int64_t kTensMax = 308;  // of the largest one
  if (!std::isfinite(number) || precision > kDigits) return self;
  if (precision < -kTensMax) return Value::Float(std::copysign(0.0, number), from_user);
  double rounded = 0;
  if (precision < 0) {
    const double whole = std::trunc(number);
    TUTTI_ASSIGN_OR_RETURN(const Value integer, IntegerFromDouble(whole, from_user));
    TUTTI_ASSIGN_OR_RETURN(const Value tens,
                           RoundToTens(integer, -precision, whole != number, from_user, work));
    TUTTI_ASSIGN_OR_RETURN(rounded, ToDouble(tens));
    return Value::Float(std::copysign(rounded, number), from_user);
  }
  (void)absl::SimpleAtod(absl::StrFormat("%.*f", static_cast<int>(precision), number), &rounded);
  return Value::Float(rounded, from_user);
}

// To an integer.
absl::StatusOr<Value> RoundToInteger(const Value& self, Work* work) {
  if (!self.IsFloat()) return RoundCommon(self, 0, work);
  TUTTI_ASSIGN_OR_RETURN(const Value rounded, RoundCommon(self, 0, work));
  return IntegerFromDouble(rounded.AsDouble(), self.number_from_user());
}

absl::StatusOr<Value> Round(const Value& self, const Call& call) {
  enum { kPrecision, kMethod };
  std::string_view method = "common";
  if (call.Has(kMethod)) method = call.values[kMethod].IsStr() ? call.values[kMethod].str() : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    return absl::InvalidArgumentError("method must be common, ceil or floor");
  }
  if (!self.IsNumber()) return TypeError(self, "cannot be rounded");
  const Value precision = call.Has(kPrecision) ? call.values[kPrecision] : Value::Int(0);
  const Value limit = Value::Int(kTemplateFormatWidthMax);
  if (precision.IsInteger() && (CompareIntegers(precision, limit) > 0 ||
                                CompareIntegers(precision, Value::Int(-limit.AsInt())) < 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("round: a precision beyond ", kTemplateFormatWidthMax));
  }
  if (method == "common") {
    if (precision.IsNone()) return RoundToInteger(self, call.work);
    if (!precision.IsInteger()) return BadArgument(precision, "int");
    return RoundCommon(self, precision.AsInt(), call.work);
  }
  TUTTI_ASSIGN_OR_RETURN(const Value power, Arithmetic("**", Value::Int(10), precision, call.work));
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
