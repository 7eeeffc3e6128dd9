#include "worker/shared_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/limits.h"

namespace tutti::worker {

SharedFile::SharedFile(const std::string& path)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (fd_ >= 0 && flock(fd_, LOCK_EX) != 0) {
    close(fd_);
    fd_ = -1;
  }
}

SharedFile::~SharedFile() {
  if (fd_ >= 0) close(fd_);
}

std::string SharedFile::Find(std::string_view key) const {
  std::string text(kSharedFileBytesMax, '\0');
  const ssize_t count = pread(fd_, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  std::string found;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() == 2 && words[0] == key) found = words[1];
  }
  return found;
}

bool SharedFile::Append(std::string_view key, std::string_view value) const {
  const std::string line = absl::StrCat(std::string(key), " ", std::string(value), "\n");
  return lseek(fd_, 0, SEEK_END) >= 0 &&
         write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace tutti::worker
