#include "text/jinja/big_integer.h"

#include <openssl/bn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "text/absl_text.h"
#include "text/limits.h"

namespace tutti::text::jinja {
namespace {

using Number = std::unique_ptr<BIGNUM, decltype(&BN_free)>;

// Bits that kTemplateIntegerDigitsMax digits may take: log2(10) is below 10/3.
constexpr int64_t kBitsMax = kTemplateIntegerDigitsMax * 10 / 3;

absl::Status TooLong() {
  return absl::InvalidArgumentError(
      absl::StrCat("an integer has more than ", kTemplateIntegerDigitsMax, " digits"));
}

Number NewNumber() {
  Number number(BN_new(), BN_free);
  CHECK(number != nullptr) << "out of memory";
  return number;
}

Number ToNumber(const Value& value) {
  const std::string digits = value.IsBig() ? value.digits() : absl::StrCat(value.AsInt());
  BIGNUM* number = nullptr;
  CHECK(BN_dec2bn(&number, digits.c_str()) > 0) << "no integer: " << digits;
  return Number(number, BN_free);
}

absl::StatusOr<Value> ToValue(const Number& number, bool from_user) {
  if (BN_num_bits(number.get()) > kBitsMax) return TooLong();
  char* const text = BN_bn2dec(number.get());
  CHECK(text != nullptr) << "out of memory";
  const std::string digits(text);
  OPENSSL_free(text);
  return IntegerFromDigits(digits, from_user);
}

// Rounded down, as Python divides; the remainder has the sign of b.
void DivideDown(const Number& a, const Number& b, BIGNUM* quotient, BIGNUM* remainder,
                BN_CTX* context) {
  CHECK(BN_div(quotient, remainder, a.get(), b.get(), context) == 1);
  if (BN_is_zero(remainder) || BN_is_negative(remainder) == BN_is_negative(b.get())) return;
  CHECK(BN_sub_word(quotient, 1) == 1);
  CHECK(BN_add(remainder, remainder, b.get()) == 1);
}

// number * 2 ** exponent as the nearest float, the even one of two; below the least normal one a
// float has the fewer bits. `beyond`: it is a little more than that.
// REQUIRES: `number` is above zero, with more bits than a float's 53
double RoundedOnce(const Number& number, bool beyond, int exponent) {
  constexpr int kBits = std::numeric_limits<double>::digits;
  constexpr int kLeastExponent = std::numeric_limits<double>::min_exponent - kBits;  // -1074
  const int bits = BN_num_bits(number.get());
  const int kept = std::min(kBits, bits + exponent - kLeastExponent);
  if (kept < 0) return 0;  // less than half of the least float
  const int dropped = bits - kept;
  const Number whole = NewNumber();
  CHECK(BN_rshift(whole.get(), number.get(), dropped) == 1);
  uint64_t mantissa = BN_get_word(whole.get());
  const bool half = BN_is_bit_set(number.get(), dropped - 1) == 1;
  for (int i = 0; i < dropped - 1 && !beyond; ++i) beyond = BN_is_bit_set(number.get(), i) == 1;
  if (half && (beyond || mantissa % 2 == 1)) ++mantissa;
  return std::ldexp(static_cast<double>(mantissa), dropped + exponent);
}

}  // namespace

absl::StatusOr<Value> IntegerFromDigits(std::string_view digits, bool from_user) {
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
  if (digits.size() > kTemplateIntegerDigitsMax) return TooLong();
  const std::string text = absl::StrCat(negative && digits != "0" ? "-" : "", Absl(digits));
  int64_t small = 0;
  if (absl::SimpleAtoi(text, &small)) return Value::Int(small, from_user);
  return Value::Big(text, from_user);
}

absl::StatusOr<Value> IntegerFromDigits(std::string_view digits, int base, bool from_user) {
  if (base == 10) return IntegerFromDigits(digits, from_user);
  if (digits.size() > static_cast<size_t>(kBitsMax)) return TooLong();
  const Number number = NewNumber();
  BN_zero(number.get());
  for (const char c : digits) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    CHECK(BN_mul_word(number.get(), static_cast<BN_ULONG>(base)) == 1);
    CHECK(BN_add_word(number.get(), static_cast<BN_ULONG>(digit)) == 1);
  }
  return ToValue(number, from_user);
}

absl::StatusOr<Value> IntegerFromDouble(double value, bool from_user) {
  if (!std::isfinite(value)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot convert float ", std::isnan(value) ? "NaN" : "infinity", " to integer"));
  }
  constexpr double kSmall = 9.2e18;
  if (std::fabs(value) < kSmall) return Value::Int(static_cast<int64_t>(value), from_user);
  return IntegerFromDigits(absl::StrFormat("%.0f", value), from_user);
}

absl::StatusOr<Value> BigArithmetic(std::string_view op, const Value& left, const Value& right,
                                    bool from_user) {
  const Number a = ToNumber(left), b = ToNumber(right), result = NewNumber();
  const std::unique_ptr<BN_CTX, decltype(&BN_CTX_free)> context(BN_CTX_new(), BN_CTX_free);
  CHECK(context != nullptr) << "out of memory";
  if (op == "+") {
    CHECK(BN_add(result.get(), a.get(), b.get()) == 1);
  } else if (op == "-") {
    CHECK(BN_sub(result.get(), a.get(), b.get()) == 1);
  } else if (op == "*") {
    CHECK(BN_mul(result.get(), a.get(), b.get(), context.get()) == 1);
  } else if (op == "**") {
    const bool small = BN_num_bits(b.get()) <= 31;
    const int64_t times = small ? static_cast<int64_t>(BN_get_word(b.get())) : 0;
    if (BN_num_bits(a.get()) > 1 && (!small || BN_num_bits(a.get()) * times > 2 * kBitsMax)) {
      return TooLong();
    }
    if (BN_num_bits(a.get()) <= 1) {  // -1, 0 or 1
      const bool odd = BN_is_odd(b.get()) == 1;
      if (BN_is_zero(b.get()) || (BN_is_negative(a.get()) && !odd)) return Value::Int(1, from_user);
      return ToValue(a, from_user);
    }
    CHECK(BN_exp(result.get(), a.get(), b.get(), context.get()) == 1);
  } else {
    if (BN_is_zero(b.get())) return absl::InvalidArgumentError("division by zero");
    const Number remainder = NewNumber();
    DivideDown(a, b, result.get(), remainder.get(), context.get());
    if (op == "%") return ToValue(remainder, from_user);
  }
  return ToValue(result, from_user);
}

absl::StatusOr<double> DivideIntegers(const Value& left, const Value& right) {
  Number a = ToNumber(left), b = ToNumber(right);
  if (BN_is_zero(b.get())) return absl::InvalidArgumentError("division by zero");
  if (BN_is_zero(a.get())) return BN_is_negative(b.get()) == 1 ? -0.0 : 0.0;
  const bool negative = BN_is_negative(a.get()) != BN_is_negative(b.get());
  BN_set_negative(a.get(), 0);
  BN_set_negative(b.get(), 0);
  // More bits of the quotient than a float has.
  constexpr int kQuotientBits = 66;
  const int shift = kQuotientBits - (BN_num_bits(a.get()) - BN_num_bits(b.get()));
  BIGNUM* const shifted = shift > 0 ? a.get() : b.get();
  CHECK(BN_lshift(shifted, shifted, std::abs(shift)) == 1);
  const Number quotient = NewNumber(), remainder = NewNumber();
  const std::unique_ptr<BN_CTX, decltype(&BN_CTX_free)> context(BN_CTX_new(), BN_CTX_free);
  CHECK(context != nullptr) << "out of memory";
  CHECK(BN_div(quotient.get(), remainder.get(), a.get(), b.get(), context.get()) == 1);
  const double result = RoundedOnce(quotient, !BN_is_zero(remainder.get()), -shift);
  if (std::isinf(result)) {
    return absl::InvalidArgumentError("integer division result too large for a float");
  }
  return negative ? -result : result;
}

absl::StatusOr<double> ToDouble(const Value& value) {
  const double number = value.AsDouble();
  if (!value.IsBig() || std::isfinite(number)) return number;
  return absl::InvalidArgumentError("int too large to convert to float");
}

int CompareIntegers(const Value& a, const Value& b) {
  if (!a.IsBig() && !b.IsBig()) {
    return a.AsInt() < b.AsInt() ? -1 : a.AsInt() > b.AsInt() ? 1 : 0;
  }
  // A comparison beyond 64 bits: by sign, number of digits, and digits.
  const auto sign = [](const Value& value) {
    return !value.IsBig() ? 0 : value.digits()[0] == '-' ? -1 : 1;
  };
  if (sign(a) != sign(b)) return sign(a) < sign(b) ? -1 : 1;
  const std::string &left = a.digits(), &right = b.digits();
  if (left == right) return 0;
  const bool less = left.size() != right.size() ? left.size() < right.size() : left < right;
  return less == (sign(a) > 0) ? -1 : 1;
}

std::string IntegerDigits(const Value& value, int base) {
  if (base == 10) return value.IsBig() ? value.digits() : absl::StrCat(value.AsInt());
  const Number number = ToNumber(value);
  const bool negative = BN_is_negative(number.get()) == 1;
  BN_set_negative(number.get(), 0);
  std::string digits;
  const int digit_bits = base == 2 ? 1 : base == 8 ? 3 : 4;
  for (int at = 0; at < BN_num_bits(number.get()); at += digit_bits) {
    int digit = 0;
    for (int i = 0; i < digit_bits; ++i) digit |= BN_is_bit_set(number.get(), at + i) << i;
    digits.push_back("0123456789abcdef"[digit]);
  }
  if (digits.empty()) digits.push_back('0');
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace tutti::text::jinja
