#include "placement/max_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/byte_size.h"
#include "placement/device_map.h"

namespace tutti::placement {

absl::StatusOr<MaxMemory> ParseMaxMemory(absl::string_view text) {
  MaxMemory limits;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('=', 1));
    const std::string device(absl::StripAsciiWhitespace(halves.first));
    if (device.empty() || halves.second.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", part, "\" is not DEVICE=SIZE, such as 0=20GiB"));
    }
    if (device == "cpu" || device == "disk") {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", part, "\": nothing is offloaded to \"", device,
          "\", every layer is served by a worker; a worker on a CPU is a device like others"));
    }
    TUTTI_ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(halves.second));
    if (!limits.emplace(device, bytes).second) {
      return absl::InvalidArgumentError(absl::StrCat("device ", device, " is given twice"));
    }
  }
  return limits;
}

absl::StatusOr<std::vector<DeviceSpec>> LimitMemory(const MaxMemory& limits,
                                                    const std::vector<DeviceSpec>& devices) {
  if (limits.empty()) return devices;
  std::vector<DeviceSpec> limited = devices;
  std::vector<bool> given(devices.size());
  std::vector<std::string> names;
  for (const DeviceSpec& device : devices) names.push_back(device.name);
  for (const auto& [name, bytes] : limits) {
    size_t index = 0;
    if (!absl::SimpleAtoi(name, &index)) {
      index = std::find(names.begin(), names.end(), name) - names.begin();
    }
    if (index >= devices.size()) {
      return absl::NotFoundError(absl::StrCat("there is no device ", name, " to limit (",
                                              "--max-memory); ", DescribeDevices(names)));
    }
    if (given[index]) {
      return absl::InvalidArgumentError(absl::StrCat("--max-memory limits device ", index, " (",
                                                     names[index],
                                                     ") twice, by its number and by its name"));
    }
    if (bytes < UsableBytes(limited[index])) {
      limited[index].memory_bytes = bytes;
      limited[index].whole_gpu = false;
    }
    given[index] = true;
  }
  std::vector<DeviceSpec> used;
  for (size_t i = 0; i < limited.size(); ++i) {
    if (given[i]) used.push_back(std::move(limited[i]));
  }
  return used;
}

}  // namespace tutti::placement
