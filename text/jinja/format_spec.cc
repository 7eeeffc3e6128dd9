#include "text/jinja/format_spec.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/utf8.h"
#include "text/absl_text.h"
#include "text/jinja/big_integer.h"
#include "text/jinja/format.h"
#include "text/jinja/operations.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace tutti::text::jinja {
namespace {

absl::Status BadCode(char type, const Value& value) {
  return Invalid(absl::StrCat("Unknown format code '", std::string(1, type),
                              "' for object of type '", Absl(value.TypeName()), "'"));
}

// Reads [[fill]align][sign][#][0][width][grouping][.precision][type].
class SpecReader {
 public:
  explicit SpecReader(std::string_view text) : rest_(text) {}

  absl::StatusOr<FormatSpec> Read() {
    FormatSpec spec;
    ReadAlign(&spec);
    if (SkipOne("+- ")) spec.sign = last_;
    spec.positive_zero = SkipOne("z");
    spec.alternate = SkipOne("#");
    if (!has_fill_ && SkipOne("0")) {
      spec.fill = "0";
      if (spec.align == '\0') spec.align = '=';
    }
    TUTTI_ASSIGN_OR_RETURN(spec.width, ReadInt(0));
    if (SkipOne(",_")) spec.grouping = last_;
    if (SkipOne(".")) {
      TUTTI_ASSIGN_OR_RETURN(spec.precision, ReadInt(-1));
      if (spec.precision < 0) return Invalid("Format specifier missing precision");
    }
    if (rest_.size() > 1) return Invalid("Invalid format specifier");
    if (!rest_.empty()) spec.type = rest_[0];
    return spec;
  }

 private:
  static bool IsAlign(std::string_view text) {
    return !text.empty() && std::string_view("<>=^").find(text[0]) != std::string_view::npos;
  }

  void ReadAlign(FormatSpec* spec) {
    if (rest_.empty()) return;
    const size_t fill = FirstUtf8Unit(rest_).length;
    if (IsAlign(rest_.substr(fill))) {
      spec->fill = rest_.substr(0, fill);
      has_fill_ = true;
      spec->align = rest_[fill];
      rest_.remove_prefix(fill + 1);
    } else if (IsAlign(rest_)) {
      spec->align = rest_[0];
      rest_.remove_prefix(1);
    }
  }

  bool SkipOne(std::string_view any) {
    if (rest_.empty() || any.find(rest_[0]) == std::string_view::npos) return false;
    last_ = rest_[0];
    rest_.remove_prefix(1);
    return true;
  }

  absl::StatusOr<int> ReadInt(int absent) {
    int number = absent;
    while (!rest_.empty() && absl::ascii_isdigit(static_cast<unsigned char>(rest_[0]))) {
      number = 10 * std::max(number, 0) + (rest_[0] - '0');
      if (number > kTemplateFormatWidthMax) {
        return Invalid(absl::StrCat("a width or precision beyond ", kTemplateFormatWidthMax));
      }
      rest_.remove_prefix(1);
    }
    return number;
  }

  std::string_view rest_;
  char last_ = '\0';
  bool has_fill_ = false;
};

// A separator after every `every` digits, from the right.
std::string Separated(std::string_view digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out;
}

// The same; zeros that fill the width have separators, too. `others`: characters beside the digits.
std::string Grouped(std::string digits, const FormatSpec& spec, size_t every, size_t others) {
  if (spec.fill == "0" && spec.align == '=') {
    size_t count = digits.size();
    const auto shown = [&] { return count + (std::max<size_t>(count, 1) - 1) / every; };
    while (shown() + others < static_cast<size_t>(spec.width)) ++count;
    digits.insert(0, count - digits.size(), '0');
  }
  return Separated(digits, spec.grouping, every);
}

bool IsShown(char sign) { return sign == '+' || sign == ' '; }

std::string WithSign(bool negative, char sign, std::string_view prefix, std::string_view digits) {
  const std::string_view shown = negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
  return absl::StrCat(Absl(shown), Absl(prefix), Absl(digits));
}

absl::StatusOr<std::string> FormatInteger(const Value& value, const FormatSpec& spec) {
  const char type = spec.type == '\0' || spec.type == 'n' ? 'd' : spec.type;
  if (type == 'c') {
    const bool fits = !value.IsBig() && value.AsInt() >= 0 && value.AsInt() < 0x110000 &&
                      (value.AsInt() < 0xD800 || value.AsInt() > 0xDFFF);
    if (!fits) return Invalid("%c arg not in range(0x110000)");
    std::string out;
    AppendUtf8(static_cast<char32_t>(value.AsInt()), &out);
    return out;
  }
  const int base = type == 'd' ? 10 : type == 'o' ? 8 : type == 'b' ? 2 : 16;
  if (type != 'd' && type != 'o' && type != 'b' && type != 'x' && type != 'X') {
    return BadCode(type, value);
  }
  std::string digits = IntegerDigits(value, base);
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (static_cast<int>(digits.size()) < spec.precision) {  // of the % operator only
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  if (spec.grouping == ',' && base != 10) return Invalid("Cannot specify ',' with this base");
  std::string prefix;
  if (spec.alternate && type != 'd') prefix = absl::StrCat("0", std::string(1, type));
  if (spec.grouping != '\0') {
    const size_t others = prefix.size() + (negative || IsShown(spec.sign) ? 1 : 0);
    digits = Grouped(digits, spec, base == 10 ? 3 : 4, others);
  }
  if (type == 'X') absl::AsciiStrToUpper(&digits);
  return WithSign(negative, spec.sign, prefix, digits);
}

// The digits that printf makes of a finite, not negative number.
std::string Digits(double value, char type, int precision, bool alternate) {
  switch (type) {
    case 'e':
      return alternate ? absl::StrFormat("%#.*e", precision, value)
                       : absl::StrFormat("%.*e", precision, value);
    case 'g':
      return alternate ? absl::StrFormat("%#.*g", precision, value)
                       : absl::StrFormat("%.*g", precision, value);
    default:
      return alternate ? absl::StrFormat("%#.*f", precision, value)
                       : absl::StrFormat("%.*f", precision, value);
  }
}

// Where no type is given, a digit stands behind the point: what has none left for it gets an
// exponent, earlier than %g writes one.
bool HasExponent(double value, int precision) {
  if (value == 0) return false;
  const int digits = std::max(precision, 1);
  const std::string text = Digits(value, 'e', digits - 1, false);
  int exponent = 0;
  (void)absl::SimpleAtoi(text.substr(text.find('e') + 1), &exponent);
  return exponent >= digits - 1;
}

std::string Scientific(double value, bool negative, const FormatSpec& spec) {
  std::string text = Digits(value, 'e', std::max(spec.precision, 1) - 1, spec.alternate);
  const size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  if (!spec.alternate && mantissa.find('.') != std::string::npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return WithSign(negative, spec.sign, "", mantissa + text.substr(e));
}

absl::StatusOr<std::string> FormatFloat(const Value& value, const FormatSpec& spec) {
  TUTTI_ASSIGN_OR_RETURN(double number, ToDouble(value));
  const char type = static_cast<char>(spec.type | 0x20);
  const bool plain = spec.type == '\0';
  if (!plain && spec.type != '%' && std::string_view("efgn").find(type) == std::string_view::npos) {
    return BadCode(spec.type, value);
  }
  const bool negative = std::signbit(number) && !std::isnan(number);
  number = std::fabs(number);
  if (spec.type == '%') number *= 100;
  std::string digits;
  if (!std::isfinite(number)) {
    digits = std::isnan(number) ? "nan" : "inf";
  } else if (plain && spec.precision < 0) {
    digits = FloatRepr(number);
  } else {
    if (plain && HasExponent(number, spec.precision)) return Scientific(number, negative, spec);
    const char kind = plain || type == 'n' ? 'g' : spec.type == '%' ? 'f' : type;
    digits = Digits(number, kind, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
    if (plain && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  }
  if (spec.grouping != '\0') {
    const size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    const size_t others =
        digits.size() - end + (spec.type == '%' ? 1 : 0) + (negative || IsShown(spec.sign) ? 1 : 0);
    digits = Grouped(digits.substr(0, end), spec, 3, others) + digits.substr(end);
  }
  if (spec.type == '%') digits += "%";
  if (spec.type >= 'A' && spec.type <= 'Z') absl::AsciiStrToUpper(&digits);
  return WithSign(negative, spec.sign, "", digits);
}

}  // namespace

absl::StatusOr<std::string> FormatNumber(const Value& value, const FormatSpec& spec) {
  const bool of_float =
      spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (value.IsFloat() || of_float) return FormatFloat(value, spec);
  return FormatInteger(value, spec);
}

absl::StatusOr<Text> Pad(const Text& text, const FormatSpec& spec, Work* work) {
  TUTTI_RETURN_IF_ERROR(work->ChargeBytes(text.memory() + static_cast<size_t>(spec.width) * 4));
  const size_t length = CountCharacters(text.bytes());
  if (length >= static_cast<size_t>(spec.width)) return text;
  const size_t missing = static_cast<size_t>(spec.width) - length;
  size_t before = spec.align == '<' ? 0 : spec.align == '^' ? missing / 2 : missing;
  const auto fill = [&](size_t times) {
    std::string out;
    for (size_t i = 0; i < times; ++i) out += spec.fill;
    return out;
  };
  Text out;
  size_t at = 0;
  if (spec.align == '=') {  // behind the sign and the prefix
    const std::string_view bytes = text.bytes();
    const bool blank = !bytes.empty() && bytes[0] == ' ' && spec.sign == ' ';
    if (blank || bytes.starts_with('+') || bytes.starts_with('-')) at = 1;
    if (spec.alternate && bytes.substr(at, 1) == "0" && bytes.size() > at + 1 &&
        absl::ascii_isalpha(static_cast<unsigned char>(bytes[at + 1]))) {
      at += 2;
    }
  }
  out.Append(text, 0, at);
  out.Append(fill(before), false);
  out.Append(text, at, text.size() - at);
  out.Append(fill(missing - before), false);
  return out;
}

absl::StatusOr<Text> FormatValue(const Value& value, std::string_view text, Work* work) {
  if (text.empty()) return ToText(value, work);
  TUTTI_ASSIGN_OR_RETURN(FormatSpec spec, SpecReader(text).Read());
  if (value.IsStr()) {
    if (spec.type != '\0' && spec.type != 's') return BadCode(spec.type, value);
    if (spec.sign != '\0' || spec.alternate || spec.positive_zero || spec.grouping != '\0') {
      return Invalid("a sign, z, # or grouping is not allowed in string format specifier");
    }
    if (spec.align == '=') {
      if (spec.fill != "0") return Invalid("'=' alignment not allowed in string format specifier");
      spec.align = '<';
    }
    if (spec.align == '\0') spec.align = '<';
    Text cut = value.text();
    if (spec.precision >= 0) {
      size_t end = 0;
      for (int i = 0; i < spec.precision && end < cut.size(); ++i) {
        end += FirstUtf8Unit(cut.bytes().substr(end)).length;
      }
      cut = cut.Substr(0, end);
    }
    return Pad(cut, spec, work);
  }
  if (!value.IsNumber()) {
    return Invalid(absl::StrCat("unsupported format string passed to ", Absl(value.TypeName()),
                                ".__format__"));
  }
  if (spec.precision >= 0 && value.IsInteger() &&
      std::string_view("eEfFgG%").find(spec.type == '\0' ? 'd' : spec.type) ==
          std::string_view::npos) {
    return Invalid("Precision not allowed in integer format specifier");
  }
  if (spec.positive_zero && value.IsInteger()) {
    return Invalid("Negative zero coercion (z) not allowed in integer format specifier");
  }
  if (spec.align == '\0') spec.align = '>';
  TUTTI_ASSIGN_OR_RETURN(std::string digits, FormatNumber(value, spec));
  return Pad(Text(std::move(digits), value.number_from_user()), spec, work);
}

}  // namespace tutti::text::jinja
