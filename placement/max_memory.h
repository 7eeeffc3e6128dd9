// --max-memory 0=20GiB,1=40GiB: how much memory of each device may be used, written as Accelerate's
// max_memory.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "base/status.h"
#include "placement/placement.h"

namespace tutti::placement {

// Limits by number ("0") or name ("w1") of the device. Empty: no limit.
using MaxMemory = std::map<std::string, int64_t>;

// INVALID_ARGUMENT names the part at fault: no "=", an unknown unit, a device given twice, "cpu" or
// "disk", which nothing is offloaded to.
absl::StatusOr<MaxMemory> ParseMaxMemory(absl::string_view text);

// Applies the limits: no device has more memory than given, and those that are not given are left
// out. NOT_FOUND names a limited device that does not exist, and those that do;
// INVALID_ARGUMENT one that is limited twice, by number and by name.
absl::StatusOr<std::vector<DeviceSpec>> LimitMemory(const MaxMemory& limits,
                                                    const std::vector<DeviceSpec>& devices);

}  // namespace tutti::placement
