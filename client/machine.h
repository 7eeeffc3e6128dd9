// What this machine has to give to a local cluster.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/status.h"

namespace tutti {

// Bytes that can be used without swapping: the kernel's MemAvailable, or less when a cgroup limits
// us.
int64_t AvailableMemoryBytes();
// Parts of the above, for tests. 0: the text does not say.
int64_t ParseMemAvailable(absl::string_view meminfo);
// What a cgroup v2 leaves: memory.max less memory.current, page cache counted as free. INT64_MAX
// for "max".
int64_t CgroupRoom(absl::string_view max, absl::string_view current, absl::string_view stat);

// CPUs this process may run on.
int CpuCount();

// The path of a program that lies beside the running one. NOT_FOUND says where it was looked for.
absl::StatusOr<std::string> ProgramBeside(absl::string_view name);

// A new folder that only we can enter, below $XDG_RUNTIME_DIR, $TMPDIR or /tmp. UNAVAILABLE when
// none can be made.
absl::StatusOr<std::string> MakePrivateDir();

}  // namespace tutti
