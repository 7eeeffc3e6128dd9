#include "model/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti::model {
namespace {

absl::Status SystemError(const std::string& path, int error) {
  std::array<char, 256> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (error == ENOENT && length > 0) {
    return absl::NotFoundError(absl::StrCat(path, ": a link to ",
                                            std::string(target.data(), static_cast<size_t>(length)),
                                            ", which is not there"));
  }
  const std::string why = absl::StrCat(path, ": ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(why)
                                             : absl::UnavailableError(why);
}

int64_t Nanoseconds(const struct timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

FileIdentity IdentityOf(const struct stat& info) {
  return {.bytes = info.st_size,
          .modified_ns = Nanoseconds(info.st_mtim),
          .changed_ns = Nanoseconds(info.st_ctim),
          .inode = info.st_ino,
          .device = info.st_dev};
}

absl::Status CheckSame(const std::string& path, const FileIdentity& now, const FileIdentity& seen) {
  if (now.SameContents(seen)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": changed since its header was read",
      now.bytes == seen.bytes ? ""
                              : absl::StrCat(", from ", seen.bytes, " to ", now.bytes, " bytes"),
      "; a checkpoint must not be written to while it is in use"));
}

}  // namespace

bool FileIdentity::SameContents(const FileIdentity& other) const {
  return bytes == other.bytes && modified_ns == other.modified_ns && inode == other.inode &&
         device == other.device;
}

CheckpointFile::~CheckpointFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

CheckpointFile::CheckpointFile(CheckpointFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(other.identity_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

CheckpointFile& CheckpointFile::operator=(CheckpointFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

absl::StatusOr<CheckpointFile> CheckpointFile::Open(const std::string& path) {
  CheckpointFile file;
  file.path_ = path;
  // A pipe of that name must not hold us up, hence O_NONBLOCK.
  file.descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info;
  if (file.descriptor_ < 0 || fstat(file.descriptor_, &info) != 0) return SystemError(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  file.identity_ = IdentityOf(info);
  return file;
}

absl::StatusOr<CheckpointFile> CheckpointFile::OpenUnchanged(const std::string& path,
                                                             const FileIdentity& seen) {
  TUTTI_ASSIGN_OR_RETURN(CheckpointFile file, Open(path));
  TUTTI_RETURN_IF_ERROR(CheckSame(path, file.identity(), seen));
  return file;
}

absl::Status CheckpointFile::Read(int64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const auto at = static_cast<off_t>(offset + static_cast<int64_t>(done));
    const ssize_t got = pread(descriptor_, out.data() + done, out.size() - done, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(
          absl::StrCat(path_, ": cannot read byte ", at, ": ", std::strerror(errno)));
    }
    if (got == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": ends at byte ", at, " and had ", identity_.bytes,
                       " bytes when it was opened: it shrank while it was read"));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

void CheckpointFile::Prefetch(int64_t offset, int64_t bytes) const {
  // Only advice: a system that declines it is slower, not wrong.
  (void)posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

absl::Status CheckUnchanged(const std::string& path, const FileIdentity& seen) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return SystemError(path, errno);
  return CheckSame(path, IdentityOf(info), seen);
}

}  // namespace tutti::model
