#include "worker/memory_size.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tutti {
namespace {

struct Unit {
  const char* name;
  double bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},      {"b", 1},        {"kb", 1e3},     {"mb", 1e6},     {"gb", 1e9},
    {"tb", 1e12}, {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40},
};

// The whole number in a file of the cgroup file system; nothing for "max" and where there is none.
bool ReadNumber(const char* path, int64_t* number) {
  std::ifstream file(path);
  return static_cast<bool>(file >> *number);
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit =
      absl::AsciiStrToLower(absl::StripAsciiWhitespace(std::string(text.substr(end))));
  double number = 0;
  if (end > 0 && absl::SimpleAtod(std::string(text.substr(0, end)), &number)) {
    for (const Unit& known : kUnits) {
      if (unit == known.name && number * known.bytes <= 0x1p60) {
        return static_cast<int64_t>(std::llround(number * known.bytes));
      }
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(std::string(text)),
                   "\" is not an amount of memory such as 4GiB, 512MiB or 1.5GB"));
}

std::string FormatBytes(int64_t bytes) {
  double value = static_cast<double>(bytes);
  const char* const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t i = 0;
  for (; i + 1 < std::size(names) && std::abs(value) >= 1024; ++i) value /= 1024;
  return i == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.2f %s", value, names[i]);
}

absl::StatusOr<int64_t> AvailableMemoryBytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key, unit;
  int64_t kibibytes = 0, available = -1;
  while (meminfo >> key >> kibibytes) {
    std::getline(meminfo, unit);
    if (key == "MemAvailable:") available = kibibytes * 1024;
  }
  if (available < 0) return absl::UnavailableError("/proc/meminfo has no MemAvailable");
  int64_t limit = 0, used = 0;
  if (ReadNumber("/sys/fs/cgroup/memory.max", &limit) &&
      ReadNumber("/sys/fs/cgroup/memory.current", &used)) {
    available = std::min(available, std::max<int64_t>(0, limit - used));
  }
  return available;
}

int AvailableCpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return std::max(1, CPU_COUNT(&cpus));
}

}  // namespace tutti
