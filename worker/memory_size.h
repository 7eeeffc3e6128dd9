// Amounts of memory: as operators write them, and as the machine has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

// "4GiB", "512 MiB", "1.5GB", "1048576": a number with B, kB, MB, GB, TB (powers of 1000) or KiB,
// MiB, GiB, TiB (powers of 1024), in any case; without a unit, bytes. INVALID_ARGUMENT quotes
// anything else, and what is negative or above 2^60.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);

// "3.50 GiB"
std::string FormatBytes(int64_t bytes);

// What this process could still take without swapping: the system's estimate, or less where a
// cgroup allows less. UNAVAILABLE when the system does not say.
absl::StatusOr<int64_t> AvailableMemoryBytes();

// CPUs this process may run on.
int AvailableCpus();

}  // namespace tutti
