#include "transport/shared_pipe.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/check.h"
#include "transport/descriptor.h"
#include "transport/frame_checksum.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr int64_t kTokenBytes = 16;
// Two rings; each begins on a page of its own.
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kRingBytes =
    (RingBytes(kSharedRingBytes) + kPageBytes - 1) / kPageBytes * kPageBytes;
constexpr int64_t kPipeBytes = 2 * kRingBytes;

absl::Status Failed(const char* what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("shared memory: cannot ", what, " ", path));
}

constexpr absl::string_view kPrefix = "tutti-";

std::string PathOf(const std::string& folder, const std::string& token) {
  return absl::StrCat(folder, "/", kPrefix, absl::BytesToHexString(token));
}

bool IsNameOfOurs(absl::string_view name) {
  return absl::ConsumePrefix(&name, kPrefix) && name.size() == 2 * kTokenBytes &&
         name.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

// The lock of a name's owner: held for as long as the name is, and gone with the process.
bool Lock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

// A file of this user's that Create has begun and whose owner is gone.
bool IsLeftBehind(int fd) {
  struct stat found {};
  return fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && (found.st_mode & 0777) == 0600 &&
         found.st_uid == geteuid() && (found.st_size == kPipeBytes || found.st_size == 0) &&
         Lock(fd);
}

absl::StatusOr<std::span<std::byte>> Map(int fd, const std::string& path) {
  void* const memory =
      mmap(nullptr, static_cast<size_t>(kPipeBytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Failed("map", path, errno);
  return std::span(static_cast<std::byte*>(memory), static_cast<size_t>(kPipeBytes));
}

// The file that Create makes: of this user, open to no other, and whole.
absl::Status CheckFile(int fd, const std::string& path) {
  struct stat found {};
  if (fstat(fd, &found) != 0) return Failed("look at", path, errno);
  if (!S_ISREG(found.st_mode) || (found.st_mode & 0777) != 0600 || found.st_uid != geteuid() ||
      found.st_size != kPipeBytes) {
    return absl::PermissionDeniedError(absl::StrCat("shared memory: ", path, " is not a file of ",
                                                    kPipeBytes,
                                                    " bytes that belongs to this user alone"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedPipe>> SharedPipe::Create(const std::string& folder) {
  std::string token(kTokenBytes, '\0');
  if (getrandom(token.data(), token.size(), 0) != kTokenBytes) {
    return absl::ErrnoToStatus(errno, "shared memory: no random bytes");
  }
  const std::string path = PathOf(folder, token);
  Descriptor fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Failed("create", path, errno);
  // A process that sweeps at this very moment may have the lock, and then removes the file.
  if (!Lock(fd.get())) {
    unlink(path.c_str());
    return Failed("lock", path, errno);
  }
  // Room is taken now: where there is none, touching the memory later would end the process.
  const int error = posix_fallocate(fd.get(), 0, kPipeBytes);
  absl::StatusOr<std::span<std::byte>> memory =
      error == 0 ? Map(fd.get(), path) : Failed("get 8 MiB for", path, error);
  if (!memory.ok()) {
    unlink(path.c_str());
    return memory.status();
  }
  std::unique_ptr<SharedPipe> pipe(
      new SharedPipe(std::move(token), path, *memory, /*is_first=*/true));
  pipe->lock_ = std::move(fd);
  return pipe;
}

int64_t SharedPipe::Sweep(const std::string& folder) {
  const std::unique_ptr<DIR, CloseFolder> names(opendir(folder.c_str()));
  if (names == nullptr) return 0;
  int64_t swept = 0;
  while (const dirent* entry = readdir(names.get())) {
    if (!IsNameOfOurs(entry->d_name)) continue;
    const std::string path = absl::StrCat(folder, "/", entry->d_name);
    const Descriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.valid() && IsLeftBehind(fd.get()) && unlink(path.c_str()) == 0) ++swept;
  }
  return swept;
}

absl::StatusOr<std::unique_ptr<SharedPipe>> SharedPipe::Open(const std::string& folder,
                                                             const std::string& token) {
  if (token.size() != kTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory: a token has ", kTokenBytes, " bytes, not ", token.size()));
  }
  const std::string path = PathOf(folder, token);
  const Descriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return Failed("open", path, errno);
  TUTTI_RETURN_IF_ERROR(CheckFile(fd.get(), path));
  TUTTI_ASSIGN_OR_RETURN(const std::span<std::byte> memory, Map(fd.get(), path));
  // Both have it now. From here on nothing is left behind, whichever of the two is killed.
  unlink(path.c_str());
  return std::unique_ptr<SharedPipe>(new SharedPipe(token, "", memory, /*is_first=*/false));
}

SharedPipe::SharedPipe(std::string token, std::string path, std::span<std::byte> memory,
                       bool is_first)
    : token_(std::move(token)), path_(std::move(path)), memory_(memory) {
  const std::span<std::byte> first = memory.first(RingBytes(kSharedRingBytes));
  const std::span<std::byte> second = memory.subspan(kRingBytes, RingBytes(kSharedRingBytes));
  writer_.emplace(is_first ? first : second);
  reader_.emplace(is_first ? second : first, kSharedMessageBytesMax, kPayloadBytesMax);
}

SharedPipe::~SharedPipe() {
  Unlink();
  munmap(memory_.data(), memory_.size());
}

void SharedPipe::Unlink() {
  if (path_.empty()) return;
  unlink(path_.c_str());
  path_.clear();
  lock_.Reset();
}

absl::StatusOr<bool> SharedPipe::TrySend(const v1::Frame& frame, const Payload& payload) {
  std::array<std::byte, kSharedMessageBytesMax> head;
  const int64_t size = static_cast<int64_t>(frame.ByteSizeLong()) + kChecksumFieldBytes;
  CHECK(size <= kSharedMessageBytesMax && payload.size() <= kPayloadBytesMax) << size;
  auto* const begin = reinterpret_cast<uint8_t*>(head.data());
  WriteChecksum(begin, frame.SerializeWithCachedSizesToArray(begin));
  return writer_->TryWrite({head.data(), static_cast<size_t>(size)}, payload.chunks);
}

absl::StatusOr<std::optional<SharedPipe::Received>> SharedPipe::TryReceive() {
  TUTTI_ASSIGN_OR_RETURN(const std::optional<RingReader::Record> record, reader_->TryRead());
  if (!record.has_value()) return std::nullopt;
  std::array<std::byte, kSharedMessageBytesMax> head;
  std::copy(record->head.begin(), record->head.end(), head.begin());
  TUTTI_ASSIGN_OR_RETURN(const auto message, CheckChecksum({head.data(), record->head.size()}));
  Received received;
  if (!received.frame.ParseFromArray(message.data(), static_cast<int>(message.size())) ||
      !received.frame.payload().empty()) {
    return absl::DataLossError("shared memory: a record begins with no frame");
  }
  if (!record->body.empty()) received.payload.chunks = {record->body};
  return received;
}

}  // namespace tutti::transport
