// Kinds of devices that serve: they differ in the bytes that they hold of the same shard.
#pragma once

#include <cstdint>

namespace tutti {

enum class DeviceKind : uint8_t { kCpu, kCuda };
inline constexpr int kDeviceKinds = 2;

}  // namespace tutti
