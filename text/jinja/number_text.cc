#include "text/jinja/number_text.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/status.h"
#include "text/case_mapping.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/strings.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

// Below `base`; 99 where it is no digit.
int DigitOf(char c) {
  const auto u = static_cast<unsigned char>(c);
  if (absl::ascii_isdigit(u)) return c - '0';
  return absl::ascii_isalpha(u) ? absl::ascii_tolower(u) - 'a' + 10 : 99;
}

// The text without white space around it, and the decimals of all scripts as those of ASCII. They
// come in tens, of which a script has several at most.
std::string Plain(const Text& text) {
  const Text stripped = Strip(text, std::nullopt, Side::kBoth);
  std::string out;
  for (std::string_view rest = stripped.bytes(); !rest.empty();) {
    const Utf8Unit unit = FirstUtf8Unit(rest);
    if (unit.code_point >= 0x80 && IsDecimal(unit.code_point)) {
      int before = 0;
      while (IsDecimal(unit.code_point - static_cast<char32_t>(before) - 1)) ++before;
      out.push_back(static_cast<char>('0' + before % 10));
    } else {
      out += rest.substr(0, static_cast<size_t>(unit.length));
    }
    rest.remove_prefix(static_cast<size_t>(unit.length));
  }
  return out;
}

// The digits of a number, without the underscores that Python allows between them; nothing when one
// stands elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view text, int base) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const auto is_digit = [&](size_t at) { return at < text.size() && DigitOf(text[at]) < base; };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return out;
}

}  // namespace

absl::Status ChargeNumber(const Text& text, Work* work) {
  const auto bytes = static_cast<int64_t>(text.bytes().size());
  // More digits than that are refused, in any base.
  const int64_t digits = std::min(bytes, kTemplateIntegerDigitsMax * 10 / 3);
  return work->Charge(bytes + digits * digits / (4 * kTemplateIntegerDigitsMax));
}

absl::StatusOr<std::optional<Value>> ReadInteger(const Text& text, int64_t base) {
  constexpr int64_t kBaseMax = 36;
  if (base != 0 && (base < 2 || base > kBaseMax)) return std::optional<Value>();
  const std::string plain = Plain(text);
  std::string_view rest = plain;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const char letter = rest.size() > 2 && rest[0] == '0' ? absl::ascii_tolower(rest[1]) : '\0';
  const int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  const bool by_prefix = base == 0;
  if (prefix != 0 && (base == prefix || by_prefix)) {
    rest.remove_prefix(rest[2] == '_' ? 3 : 2);
    base = prefix;
  }
  if (base == 0) base = 10;
  const std::optional<std::string> digits = WithoutUnderscores(rest, static_cast<int>(base));
  if (!digits.has_value() || digits->empty()) return std::optional<Value>();
  for (const char c : *digits) {
    if (DigitOf(c) >= base) return std::optional<Value>();
  }
  // As in source code, where 010 once was eight.
  const bool leading_zero = (*digits)[0] == '0' && digits->find_first_not_of('0') != digits->npos;
  if (by_prefix && base == 10 && leading_zero) return std::optional<Value>();
  TUTTI_ASSIGN_OR_RETURN(Value value,
                         IntegerFromDigits(*digits, static_cast<int>(base), text.AnyFromUser()));
  if (!negative) return std::optional<Value>(std::move(value));
  TUTTI_ASSIGN_OR_RETURN(Value minus, BigArithmetic("-", Value::Int(0), value, text.AnyFromUser()));
  return std::optional<Value>(std::move(minus));
}

std::optional<double> ReadFloat(const Text& text) {
  constexpr int kBase = 10;
  const std::optional<std::string> digits = WithoutUnderscores(Plain(text), kBase);
  double number = 0;
  if (!digits.has_value() || digits->empty() || digits->find_first_of("xX(") != std::string::npos ||
      !absl::SimpleAtod(*digits, &number)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace tutti::text::jinja
