#include "worker/fetch/checkpoint_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/byte_size.h"
#include "base/plain_name.h"
#include "model/limits.h"
#include "model/safetensors.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

using model::kDigestChunkBytes;

constexpr char kConfig[] = "config.json";
constexpr char kIndexFile[] = "model.safetensors.index.json";

bool IsFingerprint(const std::string& text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The most that a file of that name may have.
int64_t BytesMax(const v1::CheckpointFile& file) {
  if (file.name() == kConfig) return model::kConfigBytesMax;
  return file.name() == kIndexFile ? model::kIndexBytesMax : kFetchedFileBytesMax;
}

absl::Status CheckFile(const v1::CheckpointFile& file) {
  const std::string& name = file.name();
  const bool known = name == kConfig || name == kIndexFile || absl::EndsWith(name, ".safetensors");
  const bool text = name == kConfig || name == kIndexFile;
  if (!IsPlainName(name) || name[0] == '.' || !known) {
    return absl::InvalidArgumentError(absl::StrCat("\"", absl::CHexEscape(name.substr(0, 128)),
                                                   "\" is no name of a checkpoint's file"));
  }
  if (file.bytes() < 1 || file.bytes() > BytesMax(file)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is said to have ", file.bytes(), " bytes"));
  }
  const int64_t header_max =
      std::min(file.bytes(), model::kSafetensorsPrefixBytes + model::kSafetensorsHeaderBytesMax);
  if (text ? file.header_bytes() == 0
           : file.header_bytes() > 0 && file.header_bytes() <= header_max) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is said to have a header of ", file.header_bytes(), " bytes"));
}

}  // namespace

absl::Status CheckpointCache::SystemError(const char* what, const std::string& path) const {
  const int error = errno;
  const std::string why = absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(
        absl::StrCat(why, "; make room there, or name another folder with --model-cache"));
  }
  return absl::UnavailableError(why);
}

absl::StatusOr<std::unique_ptr<CheckpointCache>> CheckpointCache::Open(
    const std::string& dir, const v1::CheckpointFiles& about) {
  if (!IsFingerprint(about.model_fingerprint())) {
    return absl::InvalidArgumentError("the coordinator's fingerprint is none");
  }
  if (static_cast<size_t>(about.files_size()) > model::kShardFilesMax + 2) {
    return absl::InvalidArgumentError(absl::StrCat("the coordinator's checkpoint has ",
                                                   about.files_size(), " files, at most ",
                                                   model::kShardFilesMax + 2));
  }
  std::unique_ptr<CheckpointCache> cache(new CheckpointCache);
  for (const v1::CheckpointFile& file : about.files()) TUTTI_RETURN_IF_ERROR(cache->Add(file));
  if (cache->Find(kConfig) < 0) {
    return absl::InvalidArgumentError("the coordinator's checkpoint has no config.json");
  }
  TUTTI_RETURN_IF_ERROR(cache->MakeFolder(dir, about.model_fingerprint()));
  return cache;
}

CheckpointCache::~CheckpointCache() {
  if (open_ >= 0) close(open_);
  if (lock_ >= 0) close(lock_);
}

absl::Status CheckpointCache::Add(const v1::CheckpointFile& file) {
  TUTTI_RETURN_IF_ERROR(CheckFile(file));
  if (Find(file.name()) >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint has ", file.name(), " twice"));
  }
  files_.push_back({file.name(), file.bytes(), file.header_bytes()});
  return absl::OkStatus();
}

absl::Status CheckpointCache::MakeFolder(const std::string& dir, const std::string& fingerprint) {
  folder_ = absl::StrCat(dir, "/", fingerprint);
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot make ", folder_, ": ", error.message(),
                     "; name a folder that this user may write with --model-cache"));
  }
  const std::string path = folder_ + "/.lock";
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) return SystemError("open", path);
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  if (errno != EWOULDBLOCK) return SystemError("lock", path);
  return absl::UnavailableError(absl::StrCat(
      folder_, " is another worker's, which runs; give each its own folder with --model-cache"));
}

int32_t CheckpointCache::Find(std::string_view name) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const File& file) { return file.name == name; });
  return found == files_.end() ? -1 : static_cast<int32_t>(found - files_.begin());
}

std::string CheckpointCache::PathOf(int32_t file) const {
  return absl::StrCat(folder_, "/", files_[static_cast<size_t>(file)].name);
}

int64_t CheckpointCache::BytesOf(int32_t file, int64_t chunk) const {
  return std::min(kDigestChunkBytes,
                  files_[static_cast<size_t>(file)].bytes - chunk * kDigestChunkBytes);
}

// A file has its whole length from the beginning, so that its header can be read.
absl::Status CheckpointCache::Select(int32_t file) {
  if (open_number_ == file) return absl::OkStatus();
  if (open_ >= 0) close(open_);
  open_number_ = -1;
  const std::string path = PathOf(file);
  open_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct stat info;
  if (open_ < 0 || fstat(open_, &info) != 0) return SystemError("open", path);
  const int64_t bytes = files_[static_cast<size_t>(file)].bytes;
  if (info.st_size != bytes && ftruncate(open_, bytes) != 0) return SystemError("resize", path);
  open_number_ = file;
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckpointCache::Has(int32_t file, int64_t chunk, std::string_view digest,
                                          bool* damaged) {
  *damaged = false;
  TUTTI_RETURN_IF_ERROR(Select(file));
  const int64_t begin = chunk * kDigestChunkBytes;
  const int64_t bytes = BytesOf(file, chunk);
  // Past a chunk that is a hole there may be data, or nothing to the end of the file. A file system
  // that knows no holes says that there is data.
  const off_t data = lseek(open_, begin, SEEK_DATA);
  if (data >= begin + bytes || (data < 0 && errno == ENXIO)) return false;
  buffer_.resize(static_cast<size_t>(bytes));
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t got = pread(open_, buffer_.data() + done, buffer_.size() - done,
                              begin + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", PathOf(file));
    if (got == 0) return false;  // somebody cut it; Put makes it whole
    done += static_cast<size_t>(got);
  }
  const model::ChunkDigest here = model::DigestOf(buffer_);
  if (std::memcmp(here.data(), digest.data(), here.size()) == 0) return true;
  *damaged = true;
  return false;
}

absl::Status CheckpointCache::Put(int32_t file, int64_t chunk, std::span<const std::byte> bytes) {
  TUTTI_RETURN_IF_ERROR(Select(file));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = pwrite(open_, bytes.data() + done, bytes.size() - done,
                               chunk * kDigestChunkBytes + static_cast<off_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("write", PathOf(file));
    done += static_cast<size_t>(put);
  }
  return absl::OkStatus();
}

absl::Status CheckpointCache::CheckRoom(int64_t bytes) const {
  struct statvfs info;
  if (statvfs(folder_.c_str(), &info) != 0) return SystemError("look at", folder_);
  const double free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  if (static_cast<double>(bytes) <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(FormatBytes(bytes), " of the checkpoint are to come, and the disk of ", folder_,
                   " has room for ", FormatBytes(static_cast<int64_t>(free)),
                   "; make room there, or name another folder with --model-cache"));
}

}  // namespace tutti::worker
