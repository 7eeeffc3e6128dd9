#include "client/plan_devices.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/speed_text.h"
#include "client/format.h"
#include "client/limits.h"

namespace tutti::client {
namespace {

absl::StatusOr<placement::DeviceSpeed> ParseSpeed(const std::vector<absl::string_view>& parts,
                                                  absl::string_view whole) {
  placement::DeviceSpeed speed;
  if (parts.size() == 1) return speed;
  if (parts.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", OneLine(whole), "\": give both speeds or none, such as 24GiB@936GB/s@71Tflop/s"));
  }
  TUTTI_ASSIGN_OR_RETURN(speed.read_bytes_per_second, ParseByteRate(parts[1], "900GB/s"));
  TUTTI_ASSIGN_OR_RETURN(speed.flops_per_second, ParseFlopRate(parts[2]));
  return speed;
}

// Removes "cuda:" or "cpu:" from the front of `text`.
absl::StatusOr<DeviceKind> ConsumeKind(absl::string_view* text) {
  *text = absl::StripLeadingAsciiWhitespace(*text);
  const size_t colon = text->find(':');
  if (colon == absl::string_view::npos) return DeviceKind::kCpu;
  const absl::string_view name = text->substr(0, colon);
  const absl::string_view whole = *text;
  text->remove_prefix(colon + 1);
  if (name == "cuda") return DeviceKind::kCuda;
  if (name == "cpu") return DeviceKind::kCpu;
  return absl::InvalidArgumentError(absl::StrCat("\"", OneLine(name), "\" in \"", OneLine(whole),
                                                 "\" is not a kind of device; there are cpu: and "
                                                 "cuda:, as in cuda:4x24GiB"));
}

}  // namespace

absl::StatusOr<std::vector<placement::DeviceSpec>> ParseDeviceSpecs(absl::string_view text) {
  std::vector<placement::DeviceSpec> devices;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    TUTTI_ASSIGN_OR_RETURN(const DeviceKind kind, ConsumeKind(&part));
    const std::vector<absl::string_view> fields = absl::StrSplit(part, '@');
    TUTTI_ASSIGN_OR_RETURN(const std::vector<int64_t> memory, ParseDevices(fields.front()));
    TUTTI_ASSIGN_OR_RETURN(const placement::DeviceSpeed speed, ParseSpeed(fields, part));
    if (memory.size() + devices.size() > static_cast<size_t>(kDevicesMax)) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kDevicesMax, " devices in \"", OneLine(text), "\""));
    }
    for (const int64_t bytes : memory) {
      devices.push_back({.name = absl::StrCat("device ", devices.size()),
                         .memory_bytes = bytes,
                         .speed = speed,
                         .kind = kind,
                         .whole_gpu = kind == DeviceKind::kCuda});
    }
  }
  return devices;
}

absl::StatusOr<placement::LinkSpeed> ParseLink(absl::string_view text) {
  constexpr absl::string_view kExample = "25Gbit/s,20us";
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", OneLine(text), "\" is not a link; write for example ", kExample));
  }
  placement::LinkSpeed link;
  TUTTI_ASSIGN_OR_RETURN(link.bytes_per_second, ParseByteRate(parts[0], kExample));
  if (parts.size() == 1) return link;
  TUTTI_ASSIGN_OR_RETURN(link.latency_seconds, ParseShortTime(parts[1], kExample));
  return link;
}

}  // namespace tutti::client
