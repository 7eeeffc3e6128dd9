#include "worker/shared_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "spdlog/spdlog.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using Words = std::vector<std::string>;

Words WordsOf(absl::string_view line) { return absl::StrSplit(line, ' ', absl::SkipEmpty()); }

// OK: the lock is ours.
absl::Status Lock(int fd, const std::function<absl::Status()>& keep_on) {
  const SystemClock clock;
  const Instant deadline = clock.Now() + kSharedFilePatience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return absl::UnavailableError(std::strerror(errno));
    if (keep_on) TUTTI_RETURN_IF_ERROR(keep_on());
    if (clock.Now() >= deadline) {
      return absl::UnavailableError(absl::StrCat("another process has held it for ",
                                                 static_cast<int>(Seconds(kSharedFilePatience)),
                                                 " s"));
    }
    std::this_thread::sleep_for(kSharedFileLook);
  }
  return absl::OkStatus();
}

}  // namespace

SharedFile::SharedFile(const std::string& path, const std::function<absl::Status()>& keep_on)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  status_ = fd_ < 0 ? absl::UnavailableError(std::strerror(errno)) : Lock(fd_, keep_on);
  if (fd_ < 0 || status_.ok()) return;
  close(fd_);
  fd_ = -1;
}

SharedFile::~SharedFile() {
  if (fd_ >= 0) close(fd_);
}

// Whole lines only.
std::string SharedFile::ReadEnd() const {
  const off_t size = lseek(fd_, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(kSharedFileBytesMax));
  std::string text(kSharedFileBytesMax, '\0');
  const ssize_t count = pread(fd_, text.data(), text.size(), begin);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  if (begin > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

std::string SharedFile::Find(std::string_view key) const {
  const std::string text = ReadEnd();
  std::string found;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const Words words = WordsOf(line);
    if (words.size() == 2 && words[0] == key) found = words[1];
  }
  return found;
}

bool SharedFile::WriteAtEnd(std::string_view text) const {
  return lseek(fd_, 0, SEEK_END) >= 0 &&
         write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool SharedFile::Append(std::string_view key, std::string_view value) const {
  const std::string line = absl::StrCat(std::string(key), " ", std::string(value), "\n");
  const off_t size = lseek(fd_, 0, SEEK_END);
  if (size < 0) return false;
  if (static_cast<size_t>(size) + line.size() <= kSharedFileBytesMax) {
    char last = '\n';
    if (size > 0 && pread(fd_, &last, 1, size - 1) != 1) return false;
    return WriteAtEnd(last == '\n' ? line : "\n" + line);
  }
  // The newest, of each key one, up to half of what there may be: not soon again. Who is killed
  // in between leaves a shorter file, and others measure again.
  const std::string text = ReadEnd();
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  std::vector<std::string> kept = {line};
  std::set<std::string> keys = {std::string(key)};
  size_t bytes = line.size();
  bool ours = false;
  for (auto old = lines.rbegin(); old != lines.rend(); ++old) {
    const Words words = WordsOf(*old);
    if (words.size() != 2) continue;
    ours = true;
    // For a value for which there is no room, no older one comes back.
    if (!keys.insert(words[0]).second) continue;
    if (bytes + old->size() + 1 > kSharedFileBytesMax / 2) continue;
    kept.push_back(absl::StrCat(*old, "\n"));
    bytes += old->size() + 1;
  }
  if (!ours) {
    spdlog::warn(
        "a file of {} bytes in which no line is KEY VALUE is not one of speeds or choices, "
        "and is left as it is",
        size);
    return false;
  }
  std::string all;
  for (auto old = kept.rbegin(); old != kept.rend(); ++old) all += *old;
  return ftruncate(fd_, 0) == 0 && WriteAtEnd(all);
}

}  // namespace tutti::worker
