// The limits that the control groups (cgroups) of this process leave it, of both versions: the
// limits of a container.
//
// Every group from ours to the root may have a limit of its own; the lowest counts. A container
// sees its own group as the root, under the path that its host knows it by.  Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tutti {

struct CgroupLimits {
  std::optional<int64_t> memory_bytes_left;  // the limit less what is used; nothing: no limit
  std::optional<double> cpus;                // CPU time in a period; nothing: no limit
};

// The limits of a process, from the text of its /proc/PID/cgroup and the folder of the file
// systems.
CgroupLimits ReadCgroupLimits(absl::string_view cgroups,
                              const std::string& folder = "/sys/fs/cgroup");
// The limits of this process, read anew by each call.
CgroupLimits OwnCgroupLimits();

}  // namespace tutti
