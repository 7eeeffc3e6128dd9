#include "program/cgroups.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

// The files of these file systems have a page at most.
constexpr std::streamsize kFileBytesMax = 64 << 10;
// Version 1 says "no limit" by a number that no machine has.
constexpr int64_t kNoLimitBytes = int64_t{1} << 60;
// Groups nest a few levels deep; the kernel's own default limit is far above that.
constexpr int kDepthMax = 64;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(static_cast<size_t>(kFileBytesMax), '\0');
  file.read(text.data(), kFileBytesMax);
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadFile(path)), &number)) return std::nullopt;
  return number;
}

// The number after `key` at the start of a line of a file; 0 when there is none.
int64_t Field(const std::string& path, absl::string_view key) {
  const std::string text = ReadFile(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t value = 0;
    if (words.size() == 2 && words[0] == key && absl::SimpleAtoi(words[1], &value)) return value;
  }
  return 0;
}

template <typename Number>
void Lower(std::optional<Number>* least, std::optional<Number> other) {
  if (other.has_value() && (!least->has_value() || *other < **least)) *least = other;
}

// Clean pages of files count as used, and are given back on demand.
std::optional<int64_t> Room(std::optional<int64_t> limit, std::optional<int64_t> used,
                            int64_t clean) {
  if (!limit.has_value() || !used.has_value() || *limit >= kNoLimitBytes) return std::nullopt;
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - std::max<int64_t>(0, clean)));
}

std::optional<double> Share(std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (quota.value_or(-1) <= 0 || period.value_or(0) <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

void ReadVersion2(const std::string& group, CgroupLimits* limits) {
  Lower(&limits->memory_bytes_left,
        Room(ReadNumber(group + "memory.max"), ReadNumber(group + "memory.current"),
             Field(group + "memory.stat", "inactive_file")));
  const std::string text = ReadFile(group + "cpu.max");
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
  int64_t quota = 0, period = 0;
  if (words.size() == 2 && absl::SimpleAtoi(words[0], &quota) &&
      absl::SimpleAtoi(words[1], &period)) {
    Lower(&limits->cpus, Share(quota, period));
  }
}

void ReadMemoryVersion1(const std::string& group, CgroupLimits* limits) {
  Lower(&limits->memory_bytes_left, Room(ReadNumber(group + "memory.limit_in_bytes"),
                                         ReadNumber(group + "memory.usage_in_bytes"),
                                         Field(group + "memory.stat", "total_inactive_file")));
}

void ReadCpuVersion1(const std::string& group, CgroupLimits* limits) {
  Lower(&limits->cpus,
        Share(ReadNumber(group + "cpu.cfs_quota_us"), ReadNumber(group + "cpu.cfs_period_us")));
}

using ReadGroup = void (*)(const std::string& group, CgroupLimits* limits);

// Limits from the group at `path` to the root of one file system.
void ReadUpwards(const std::string& mount, absl::string_view path, ReadGroup read,
                 CgroupLimits* limits) {
  std::filesystem::path at = std::filesystem::path(std::string(path)).lexically_normal();
  for (int depth = 0; depth < kDepthMax; ++depth) {
    const std::string group = absl::StrCat(mount, at.string());
    read(absl::StrCat(group, group.back() == '/' ? "" : "/"), limits);
    if (!at.has_relative_path()) return;
    at = at.parent_path();
  }
}

}  // namespace

CgroupLimits ReadCgroupLimits(absl::string_view cgroups, const std::string& folder) {
  CgroupLimits limits;
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    // "4:memory:/path", "1:cpu,cpuacct:/path"; of version 2 "0::/path".
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[1].empty()) {
      ReadUpwards(folder, parts[2], ReadVersion2, &limits);
      ReadUpwards(folder + "/unified", parts[2], ReadVersion2, &limits);
      continue;
    }
    for (const absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      const ReadGroup read = controller == "memory" ? ReadMemoryVersion1
                             : controller == "cpu"  ? ReadCpuVersion1
                                                    : nullptr;
      if (read == nullptr) continue;
      ReadUpwards(absl::StrCat(folder, "/", parts[1]), parts[2], read, &limits);
      ReadUpwards(absl::StrCat(folder, "/", controller), parts[2], read, &limits);
    }
  }
  return limits;
}

CgroupLimits OwnCgroupLimits() { return ReadCgroupLimits(ReadFile("/proc/self/cgroup")); }

}  // namespace tutti
