#include "client/plan_devices.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/format.h"
#include "client/limits.h"

namespace tutti {
namespace {

// A number and what follows it. Null when there is no number, or not a finite positive one.
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
    return absl::InvalidArgumentError(
        absl::StrCat("\"", OneLine(text), "\" is no speed; write for example ", example));
  }
  return quantity;
}

// 1000 for "k" and so on, taken off the front of `unit`; 1 when there is none.
double TakePrefix(std::string* unit) {
  constexpr absl::string_view kPrefixes = "kmgtp";
  const size_t power = unit->empty() ? std::string::npos : kPrefixes.find(unit->front());
  if (power == absl::string_view::npos) return 1;
  unit->erase(0, 1);
  return std::pow(1000.0, static_cast<double>(power + 1));
}

absl::Status UnknownUnit(absl::string_view text, absl::string_view example) {
  return absl::InvalidArgumentError(
      absl::StrCat("unknown unit in \"", OneLine(text), "\"; write for example ", example));
}

// "900GB/s" or "25Gbit/s".
absl::StatusOr<double> ParseByteRate(absl::string_view text, absl::string_view example) {
  TUTTI_ASSIGN_OR_RETURN(Quantity quantity, ParseQuantity(text, example));
  const double scale = TakePrefix(&quantity.unit);
  if (quantity.unit == "b") return quantity.number * scale;
  if (quantity.unit == "bit") return quantity.number * scale / 8;
  return UnknownUnit(text, example);
}

// "312Tflop/s", "312 TFLOPS".
absl::StatusOr<double> ParseFlopRate(absl::string_view text) {
  constexpr absl::string_view kExample = "312Tflop/s";
  TUTTI_ASSIGN_OR_RETURN(Quantity quantity, ParseQuantity(text, kExample));
  const double scale = TakePrefix(&quantity.unit);
  if (quantity.unit != "flop" && quantity.unit != "flops") return UnknownUnit(text, kExample);
  return quantity.number * scale;
}

absl::StatusOr<DeviceSpeed> ParseSpeed(const std::vector<absl::string_view>& parts,
                                       absl::string_view whole) {
  DeviceSpeed speed;
  if (parts.size() == 1) return speed;
  if (parts.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", OneLine(whole), "\": give both speeds or none, such as 24GiB@936GB/s@71Tflop/s"));
  }
  TUTTI_ASSIGN_OR_RETURN(speed.read_bytes_per_second, ParseByteRate(parts[1], "900GB/s"));
  TUTTI_ASSIGN_OR_RETURN(speed.flops_per_second, ParseFlopRate(parts[2]));
  return speed;
}

}  // namespace

absl::StatusOr<std::vector<DeviceSpec>> ParseDeviceSpecs(absl::string_view text) {
  std::vector<DeviceSpec> devices;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(part, '@');
    TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> memory, ParseDevices(fields.front()));
    TUTTI_ASSIGN_OR_RETURN(const DeviceSpeed speed, ParseSpeed(fields, part));
    if (memory.size() + devices.size() > static_cast<size_t>(kDevicesMax)) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kDevicesMax, " devices in \"", OneLine(text), "\""));
    }
    for (const int64_t bytes : memory) {
      devices.push_back(
          {.name = absl::StrCat("device ", devices.size()), .memory_bytes = bytes, .speed = speed});
    }
  }
  return devices;
}

absl::StatusOr<LinkSpeed> ParseLink(absl::string_view text) {
  constexpr absl::string_view kExample = "25Gbit/s,20us";
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() > 2) return UnknownUnit(text, kExample);
  LinkSpeed link;
  TUTTI_ASSIGN_OR_RETURN(link.bytes_per_second, ParseByteRate(parts[0], kExample));
  if (parts.size() == 1) return link;
  const absl::StatusOr<Quantity> latency = ParseQuantity(parts[1], kExample);
  if (!latency.ok()) return latency.status();
  if (latency->unit == "us") {
    link.latency_seconds = latency->number * 1e-6;
  } else if (latency->unit == "ms") {
    link.latency_seconds = latency->number * 1e-3;
  } else {
    return UnknownUnit(parts[1], kExample);
  }
  return link;
}

}  // namespace tutti
