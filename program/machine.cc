#include "program/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "program/cgroups.h"

namespace tutti {
namespace {

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The number after `key` at the start of a line; -1 when there is none.
int64_t KilobytesOf(absl::string_view text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t value = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &value)) return value;
  }
  return -1;
}

}  // namespace

int64_t ParseMemAvailable(absl::string_view meminfo) {
  return std::max<int64_t>(0, KilobytesOf(meminfo, "MemAvailable:")) * 1024;
}

int64_t AvailableMemoryBytes() {
  const int64_t available = ParseMemAvailable(ReadSmallFile("/proc/meminfo"));
  return std::min(available, OwnCgroupLimits().memory_bytes_left.value_or(available));
}

int CpusOf(int count, std::optional<double> limit) {
  // Threads wait for each other in every operator: one that is made to pause holds up the rest. So
  // a part of a CPU counts for none.
  if (limit.has_value() && *limit < count) count = static_cast<int>(*limit);
  return std::max(1, count);
}

int CpuCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CpusOf(CPU_COUNT(&set), OwnCgroupLimits().cpus);
}

}  // namespace tutti
