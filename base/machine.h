// The memory and CPUs that this machine gives to this process.
//
// Thread: any.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tutti {

// Bytes that can be used without swapping: the kernel's MemAvailable, or less when a cgroup limits
// us. 0 where the system does not say.
int64_t AvailableMemoryBytes();
// Parts of the above, for tests. 0: the text does not say.
int64_t ParseMemAvailable(absl::string_view meminfo);
// The bytes that a cgroup v2 leaves: memory.max less memory.current, page cache counted as free.
// INT64_MAX for "max".
int64_t CgroupRoom(absl::string_view max, absl::string_view current, absl::string_view stat);

// CPUs this process may run on.
int CpuCount();

}  // namespace tutti
