#include "worker/device_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

// The id is the driver's: nothing of it but letters, digits, '-' and '.' becomes a part of a path.
std::string FileOf(const std::string& folder, const std::string& id) {
  std::string name = id.substr(0, kDeviceIdBytesMax);
  for (char& c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '.') c = '_';
  }
  return absl::StrCat(folder, "/device-", name, ".lock");
}

std::string HolderIn(int descriptor) {
  std::string text(kDeviceHolderBytesMax, '\0');
  const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text.empty() ? "another process" : absl::Utf8SafeCEscape(text);
}

}  // namespace

absl::StatusOr<DeviceClaim> DeviceClaim::Take(const std::string& folder, const std::string& id,
                                              const std::string& holder) {
  const std::string path = FileOf(folder, id);
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    return absl::UnavailableError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  DeviceClaim claim(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(absl::StrCat(HolderIn(descriptor), " has it"));
  }
  const std::string text = holder.substr(0, kDeviceHolderBytesMax);
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text.data(), text.size(), 0) < 0) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  return claim;
}

DeviceClaim::DeviceClaim(DeviceClaim&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

DeviceClaim& DeviceClaim::operator=(DeviceClaim&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

// The file stays: removing it would let two take it, one through each of two files of its name.
DeviceClaim::~DeviceClaim() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace tutti::worker
