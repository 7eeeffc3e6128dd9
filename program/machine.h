// The memory and CPUs that this machine gives to this process.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace tutti {

// Bytes that can be used without swapping: the kernel's MemAvailable, or less when a cgroup limits
// us. 0 where the system does not say.
int64_t AvailableMemoryBytes();
// Parts of the above, for tests. 0: the text does not say.
int64_t ParseMemAvailable(absl::string_view meminfo);

// CPUs that this process may use: those it may run on, or fewer when a cgroup limits its time. At
// least 1.
int CpuCount();
// Part of the above, for tests: of `count` CPUs with time for `limit` of them.
int CpusOf(int count, std::optional<double> limit);

}  // namespace tutti
