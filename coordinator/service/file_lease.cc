#include "coordinator/service/file_lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/plain_name.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

FileLease::FileLease(std::string path, std::string name, WallClock now)
    : path_(std::move(path)),
      name_(std::move(name)),
      about_(absl::StrCat("the lock ", path_)),
      now_(std::move(now)) {}

absl::Status FileLease::Failed(const char* attempt) const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", attempt, " ", path_));
}

absl::StatusOr<std::optional<uint32_t>> FileLease::TryAcquire() {
  if (!file_.valid()) {
    file_ = transport::Descriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file_.valid()) return Failed("open");
  }
  if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed("lock");
    const absl::StatusOr<Holder> holder = Read();
    if (holder.ok()) leader_ = holder->name;
    // Another file there: the next attempt is for that one.
    if (!IsAtPath()) file_ = transport::Descriptor();
    return std::nullopt;
  }
  absl::StatusOr<std::optional<uint32_t>> number = std::nullopt;
  if (IsAtPath()) {
    number = [this]() -> absl::StatusOr<std::optional<uint32_t>> {
      TUTTI_ASSIGN_OR_RETURN(const Holder last, Read());
      TUTTI_ASSIGN_OR_RETURN(const uint32_t next, NextIncarnation(last.number, now_()));
      TUTTI_RETURN_IF_ERROR(Write({.number = next, .name = name_}));
      return next;
    }();
  }
  if (number.ok() && number->has_value()) {
    time_.Set(kInstantNever);
  } else {
    file_ = transport::Descriptor();  // and the lock with it
  }
  return number;
}

absl::StatusOr<FileLease::Holder> FileLease::Read() const {
  std::array<char, kLockFileBytesMax> bytes{};
  const ssize_t size = pread(file_.get(), bytes.data(), bytes.size(), 0);
  if (size < 0) return Failed("read");
  Holder holder;
  if (size == 0) return holder;
  // The text of the first line: behind it there may be the end of a longer one, if a leader died
  // writing.
  std::string_view line(bytes.data(), static_cast<size_t>(size));
  line = line.substr(0, line.find('\n'));
  const std::vector<std::string> words =
      absl::StrSplit(absl::string_view(line.data(), line.size()), ' ');
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &holder.number) || !IsPlainName(words[1])) {
    return absl::DataLossError(
        absl::StrCat(path_,
                     " is no lock of coordinators (a number and a name); if it should be "
                     "one, remove it"));
  }
  holder.name = words[1];
  return holder;
}

absl::Status FileLease::Write(const Holder& holder) const {
  const std::string text = absl::StrCat(holder.number, " ", holder.name, "\n");
  if (pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ftruncate(file_.get(), static_cast<off_t>(text.size())) != 0 || fsync(file_.get()) != 0) {
    return Failed("write");
  }
  return absl::OkStatus();
}

bool FileLease::IsAtPath() const {
  struct stat open_one = {};
  struct stat at_path = {};
  return fstat(file_.get(), &open_one) == 0 && stat(path_.c_str(), &at_path) == 0 &&
         open_one.st_dev == at_path.st_dev && open_one.st_ino == at_path.st_ino;
}

absl::Status FileLease::Keep() {
  if (IsAtPath()) return absl::OkStatus();
  return absl::AbortedError("the file was removed or replaced");
}

void FileLease::Resign() {
  time_.Set(Instant());
  file_ = transport::Descriptor();
}

Duration FileLease::keep_interval() const { return kLockLookInterval; }

}  // namespace tutti::coordinator
