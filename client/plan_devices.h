// Devices and links as they are typed after `tutti plan`.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/status.h"
#include "placement/placement.h"

namespace tutti::client {

// "4x24GiB,cuda:2x80GiB@2TB/s@312Tflop/s": per device its kind (cpu: unless said otherwise), its
// memory, and if known how fast it reads that memory and multiplies matrices. Named "device 0" and
// so on. The memory of a CPU is the part that a worker may use, that of a GPU is all of it.
// INVALID_ARGUMENT names the part at fault; more than kDevicesMax devices are refused.
absl::StatusOr<std::vector<placement::DeviceSpec>> ParseDeviceSpecs(absl::string_view text);

// "25Gbit/s" or "3GB/s,5us": between any two devices.
absl::StatusOr<placement::LinkSpeed> ParseLink(absl::string_view text);

}  // namespace tutti::client
