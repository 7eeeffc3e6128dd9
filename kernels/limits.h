// Sizes that shape the kernels, each with where it comes from.
#pragma once

#include <cstdint>

namespace tutti::kernels {

// The x86-64 large page. Smaller buffers cannot hold one.
inline constexpr int64_t kLargePageBytes = 2 << 20;

// More threads than any machine we know has cores; a typo such as --threads=10000 should not start them.
inline constexpr int kThreadsMax = 512;

}  // namespace tutti::kernels
