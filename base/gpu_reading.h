// The figures that a GPU can have. Workers leave out what its driver says beyond that, and a
// coordinator refuses it; neither sees the other, so it stands here.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Some thousand times what the largest GPU of 2025 has.
inline constexpr int64_t kGpuMemoryBytesMax = int64_t{1} << 50;
// Ten times what the most that a board of 2025 draws.
inline constexpr double kGpuPowerWattsMax = 20000;
// Silicon is dead long before.
inline constexpr double kGpuCelsiusMax = 250;
// A year: of a driver that has hung since.
inline constexpr double kGpuAgeSecondsMax = 366.0 * 86400;
// Processes that are looked at; more do not fit into a GPU's memory.
inline constexpr size_t kGpuProcessesMax = 1024;
inline constexpr size_t kGpuProcessNameBytesMax = 32;
// Holders of memory beside us that are named.
inline constexpr size_t kGpuHoldersNamed = 3;
// Three of "pid 4294967295 <name>: 1023.9 GiB", and ", ".
inline constexpr size_t kGpuTextBytesMax = 256;

// A copy of at most `bytes_max` bytes of it, all printable ASCII: others become '?'.
inline std::string PrintableOf(std::string_view text, size_t bytes_max) {
  std::string out(text.substr(0, bytes_max));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

}  // namespace tutti
