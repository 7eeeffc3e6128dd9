#include "base/speed_text.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tutti {
namespace {

struct Quantity {
  double number = 0;
  std::string unit;  // in lower case, without "/s"
};

absl::StatusOr<Quantity> ParseQuantity(absl::string_view text, absl::string_view example) {
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  const size_t end = std::min(lower.find_first_not_of("0123456789."), lower.size());
  Quantity quantity;
  absl::string_view unit = absl::StripAsciiWhitespace(absl::string_view(lower).substr(end));
  absl::ConsumeSuffix(&unit, "/s");
  quantity.unit = std::string(unit);
  if (!absl::SimpleAtod(lower.substr(0, end), &quantity.number) ||
      !std::isfinite(quantity.number) || quantity.number <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::CHexEscape(text), "\" is not a speed; write for example ", example));
  }
  return quantity;
}

// 1000 for "k" and so on, taken off the front of `unit`; 1 when there is none.
double RemovePrefix(std::string* unit) {
  constexpr absl::string_view kPrefixes = "kmgtp";
  const size_t power = unit->empty() ? std::string::npos : kPrefixes.find(unit->front());
  if (power == absl::string_view::npos) return 1;
  unit->erase(0, 1);
  return std::pow(1000.0, static_cast<double>(power + 1));
}

absl::Status UnknownUnit(absl::string_view text, absl::string_view example) {
  return absl::InvalidArgumentError(absl::StrCat("unknown unit in \"", absl::CHexEscape(text),
                                                 "\"; write for example ", example));
}

}  // namespace

absl::StatusOr<double> ParseByteRate(absl::string_view text, absl::string_view example) {
  TUTTI_ASSIGN_OR_RETURN(Quantity quantity, ParseQuantity(text, example));
  const double scale = RemovePrefix(&quantity.unit);
  if (quantity.unit == "b") return quantity.number * scale;
  if (quantity.unit == "bit") return quantity.number * scale / 8;
  return UnknownUnit(text, example);
}

absl::StatusOr<double> ParseFlopRate(absl::string_view text) {
  constexpr absl::string_view kExample = "312Tflop/s";
  TUTTI_ASSIGN_OR_RETURN(Quantity quantity, ParseQuantity(text, kExample));
  const double scale = RemovePrefix(&quantity.unit);
  if (quantity.unit != "flop" && quantity.unit != "flops") return UnknownUnit(text, kExample);
  return quantity.number * scale;
}

absl::StatusOr<double> ParseShortTime(absl::string_view text, absl::string_view example) {
  TUTTI_ASSIGN_OR_RETURN(const Quantity quantity, ParseQuantity(text, example));
  if (quantity.unit == "us") return quantity.number * 1e-6;
  if (quantity.unit == "ms") return quantity.number * 1e-3;
  if (quantity.unit == "s") return quantity.number;
  return UnknownUnit(text, example);
}

}  // namespace tutti
