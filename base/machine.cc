#include "base/machine.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The number after `key` at the start of a line; -1 when there is none.
int64_t Field(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t value = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &value)) return value;
  }
  return -1;
}

// Room in every cgroup from ours to the root: each may have a limit of its own.
int64_t RoomOfOurCgroups() {
  std::string path;
  for (absl::string_view line : absl::StrSplit(ReadSmallFile("/proc/self/cgroup"), '\n')) {
    if (line.substr(0, 3) == "0::") path = std::string(line.substr(3));
  }
  int64_t room = kUnlimited;
  for (std::filesystem::path at = path.empty() ? "/" : path;; at = at.parent_path()) {
    const std::string dir = "/sys/fs/cgroup" + at.string() + "/";
    room = std::min(
        room, CgroupRoom(ReadSmallFile(dir + "memory.max"), ReadSmallFile(dir + "memory.current"),
                         ReadSmallFile(dir + "memory.stat")));
    if (at == at.parent_path()) return room;
  }
}

}  // namespace

int64_t ParseMemAvailable(absl::string_view meminfo) {
  return std::max<int64_t>(0, Field(meminfo, "MemAvailable:")) * 1024;
}

int64_t CgroupRoom(absl::string_view max, absl::string_view current, absl::string_view stat) {
  int64_t limit = 0;
  int64_t used = 0;
  if (!absl::SimpleAtoi(max, &limit) || !absl::SimpleAtoi(current, &used)) return kUnlimited;
  // Clean file pages are counted as used but given back on demand.
  used -= std::max<int64_t>(0, Field(stat, "inactive_file"));
  return std::max<int64_t>(0, limit - std::max<int64_t>(0, used));
}

int64_t AvailableMemoryBytes() {
  return std::min(ParseMemAvailable(ReadSmallFile("/proc/meminfo")), RoomOfOurCgroups());
}

int CpuCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace tutti
