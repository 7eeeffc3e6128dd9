#include "base/byte_size.h"

#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tutti {
namespace {

// Multiplier of a unit; 0 for one we do not know.
double UnitBytes(absl::string_view unit) {
  const std::string lower = absl::AsciiStrToLower(unit);
  if (lower.empty() || lower == "b") return 1;
  static const std::string kPrefixes = "kmgtp";
  const size_t power = kPrefixes.find(lower[0]);
  if (power == std::string::npos) return 0;
  const std::string rest = lower.substr(1);
  if (rest == "b") return std::pow(1000.0, static_cast<double>(power + 1));
  if (rest.empty() || rest == "i" || rest == "ib") {
    return std::pow(1024.0, static_cast<double>(power + 1));
  }
  return 0;
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  size_t digits = 0;
  while (digits < trimmed.size() &&
         (absl::ascii_isdigit(trimmed[digits]) || trimmed[digits] == '.')) {
    ++digits;
  }
  double number = 0;
  if (digits == 0 || !absl::SimpleAtod(trimmed.substr(0, digits), &number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::CHexEscape(text), "\" is not a size; write for example 24GiB or 512MiB"));
  }
  const absl::string_view unit = absl::StripAsciiWhitespace(trimmed.substr(digits));
  const double scale = UnitBytes(unit);
  if (scale == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown unit \"", absl::CHexEscape(unit), "\" in \"", absl::CHexEscape(text),
                     "\"; known are B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"));
  }
  const double bytes = number * scale;
  // 2^63 itself is representable as a double and is the first value that does not fit.
  if (bytes >= 9223372036854775808.0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(text), "\" is too large"));
  }
  return static_cast<int64_t>(bytes);
}

std::string FormatBytes(int64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const double magnitude = std::abs(static_cast<double>(bytes));
  if (magnitude < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would print as 1024.0.
  while (std::abs(value) >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace tutti
