// Amounts of memory as people write and read them.
//
// Thread: any; pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti {

// Bytes from text such as "24GiB", "1.5 GB", "512MiB", "65536" or "64k" (1024-based without "iB",
// see below).
//
//   B; kB MB GB TB PB: powers of 1000; KiB MiB GiB TiB PiB: powers of 1024; K M G T P alone: powers
//   of 1024, as the flags of java, docker and kubernetes read them. Upper and lower case mean the
//   same.
//
// INVALID_ARGUMENT names the unit it does not know, a number that is negative, not a number or too
// large for 63 bits.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// "24.0 GiB", "1.5 MiB", "812 B": three significant digits and more, powers of 1024.
std::string FormatBytes(int64_t bytes);

}  // namespace tutti
