#include "model/digest_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/chunk_digest.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

// The last byte is the version of what follows.
constexpr std::string_view kMagic("tutti digests\n\0\1", 16);
constexpr char kBesideName[] = ".tutti-digests";

std::string_view SelfDigest(std::string_view bytes, ChunkDigest* digest) {
  *digest = DigestOf(std::as_bytes(std::span(bytes)));
  return {reinterpret_cast<const char*>(digest->data()), digest->size()};
}

void AppendNumber(uint64_t value, std::string* out) {
  for (int i = 0; i < 8; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// Cuts pieces off the front of the bytes; says where it is too short.
class Cutter {
 public:
  explicit Cutter(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}
  bool empty() const { return rest_.empty(); }

  absl::StatusOr<std::string_view> Bytes(uint64_t count) {
    if (count > rest_.size()) return Wrong(absl::StrCat("needs ", count, " bytes more"));
    const std::string_view cut = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return cut;
  }
  absl::StatusOr<uint64_t> Number() {
    TUTTI_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(8));
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
  }
  absl::Status Wrong(std::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("not in order at byte ", size_ - rest_.size(), ": ", std::string(why)));
  }

 private:
  std::string_view rest_;
  const size_t size_;
};

absl::Status DecodeFile(Cutter* cutter, DigestCache* cache) {
  TUTTI_ASSIGN_OR_RETURN(const uint64_t name_bytes, cutter->Number());
  if (name_bytes == 0 || name_bytes > kCheckpointFileNameBytesMax) {
    return cutter->Wrong(absl::StrCat("a file's name of ", name_bytes, " bytes"));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::string_view name, cutter->Bytes(name_bytes));
  uint64_t numbers[5] = {};
  for (uint64_t& number : numbers) {
    TUTTI_ASSIGN_OR_RETURN(number, cutter->Number());
  }
  if (numbers[0] > static_cast<uint64_t>(INT64_MAX)) return cutter->Wrong("a file of 2^63 bytes");
  CachedDigests file;
  file.identity = {.bytes = static_cast<int64_t>(numbers[0]),
                   .modified_ns = static_cast<int64_t>(numbers[1]),
                   .changed_ns = static_cast<int64_t>(numbers[2]),
                   .inode = numbers[3],
                   .device = numbers[4]};
  const auto chunks = static_cast<uint64_t>(ChunkCount(file.identity.bytes));
  TUTTI_ASSIGN_OR_RETURN(const std::string_view digests, cutter->Bytes(chunks * kChunkDigestBytes));
  file.digests = std::string(digests);
  if (!cache->emplace(std::string(name), std::move(file)).second) {
    return cutter->Wrong("a file twice");
  }
  if (cache->size() > kShardFilesMax) return cutter->Wrong("too many files");
  return absl::OkStatus();
}

absl::Status FailedTo(std::string_view what, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", std::string(what), " ", path, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FailedTo("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(descriptor) == 0 ? absl::OkStatus() : FailedTo("write", path);
}

}  // namespace

std::string EncodeDigestCache(const DigestCache& cache) {
  std::string out(kMagic);
  for (const auto& [name, file] : cache) {
    AppendNumber(name.size(), &out);
    out += name;
    AppendNumber(static_cast<uint64_t>(file.identity.bytes), &out);
    AppendNumber(static_cast<uint64_t>(file.identity.modified_ns), &out);
    AppendNumber(static_cast<uint64_t>(file.identity.changed_ns), &out);
    AppendNumber(file.identity.inode, &out);
    AppendNumber(file.identity.device, &out);
    out += file.digests;
  }
  ChunkDigest digest;
  return out + std::string(SelfDigest(out, &digest));
}

absl::StatusOr<DigestCache> DecodeDigestCache(std::string_view bytes) {
  if (bytes.size() < kMagic.size() + kChunkDigestBytes || !bytes.starts_with(kMagic)) {
    return absl::InvalidArgumentError("not a cache of digests, or of another version");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kChunkDigestBytes);
  ChunkDigest digest;
  if (bytes.substr(body.size()) != SelfDigest(body, &digest)) {
    return absl::InvalidArgumentError("damaged: its own digest differs");
  }
  Cutter cutter(body.substr(kMagic.size()));
  DigestCache cache;
  while (!cutter.empty()) TUTTI_RETURN_IF_ERROR(DecodeFile(&cutter, &cache));
  return cache;
}

std::vector<std::string> DigestCachePaths(const std::string& dir) {
  std::vector<std::string> paths = {absl::StrCat(dir, "/", kBesideName)};
  std::error_code error;
  std::string real = std::filesystem::weakly_canonical(dir, error).string();
  if (error) real = dir;
  ChunkDigest digest;
  const std::string name = DigestText(SelfDigest(real, &digest));
  const auto add = [&](const char* folder, const char* below) {
    // The specification has relative paths ignored.
    if (folder == nullptr || folder[0] != '/') return;
    paths.push_back(absl::StrCat(folder, below, "/tutti/digests-", name));
  };
  add(std::getenv("XDG_CACHE_HOME"), "");
  add(std::getenv("HOME"), "/.cache");
  return paths;
}

absl::StatusOr<DigestCache> ReadDigestCache(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return absl::NotFoundError(path);
    return FailedTo("open", path);
  }
  struct Closer {
    int descriptor;
    ~Closer() { close(descriptor); }
  } const closer{descriptor};
  struct stat info;
  if (fstat(descriptor, &info) != 0) return FailedTo("look at", path);
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError(absl::StrCat(path, ": not a file"));
  if (info.st_size > kDigestCacheBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", info.st_size, " bytes, at most ", kDigestCacheBytesMax));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(descriptor, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailedTo("read", path);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  absl::StatusOr<DigestCache> cache = DecodeDigestCache(bytes);
  if (!cache.ok()) return Annotate(cache.status(), path);
  return cache;
}

absl::Status WriteDigestCache(const std::string& path, const DigestCache& cache) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::string temporary = path + ".XXXXXX";
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return FailedTo("make", temporary);
  absl::Status status = WriteAll(descriptor, EncodeDigestCache(cache), temporary);
  // As the checkpoint: whoever may read that may start from its digests.
  (void)fchmod(descriptor, 0644);
  close(descriptor);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = FailedTo("replace", path);
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace tutti::model
