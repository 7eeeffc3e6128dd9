#include "model/checkpoint.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model/checkpoint_index.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status SystemError(const std::string& path, int error) {
  const std::string why = absl::StrCat(path, ": ", std::strerror(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(why)
                                             : absl::UnavailableError(why);
}

// Opens a regular file. A pipe of that name must not hold us up, hence O_NONBLOCK.
absl::StatusOr<FileDescriptor> OpenRegular(const std::string& path, struct stat* info) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0 || fstat(fd.get(), info) != 0) return SystemError(path, errno);
  if (!S_ISREG(info->st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  return fd;
}

absl::StatusOr<std::string> ReadBytes(int fd, const std::string& path, int64_t offset,
                                      int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(offset + static_cast<int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(path, errno);
    if (got == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": shrank while read"));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

absl::StatusOr<ShardMap> ReadIndex(const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const std::string text, text::ReadTextFile(path, kIndexBytesMax));
  return ParseCheckpointIndex(text, path);
}

absl::Status NoCheckpoint(const std::string& dir) {
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (!Exists(dir + "/" + pickled)) continue;
    return absl::UnimplementedError(absl::StrCat(
        dir, ": only pickled weights (", pickled,
        "). Reading a pickle can run any code, so it is not supported: convert it to safetensors "
        "where you trust it, with save_pretrained(..., safe_serialization=True)"));
  }
  return absl::NotFoundError(
      absl::StrCat(dir, ": neither ", kSingleFile, " nor ", kIndexFile, " is there"));
}

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

void Advise(std::span<const std::byte> bytes, int advice) {
  if (bytes.empty()) return;
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first_page = begin & ~static_cast<uintptr_t>(PageBytes() - 1);
  // Only advice: a kernel that declines it is slower, not wrong. Pages shared with a neighbouring
  // tensor are read again from the file if that one is still in use.
  (void)madvise(reinterpret_cast<void*>(first_page), begin + bytes.size() - first_page, advice);
}

}  // namespace

struct Checkpoint::OpenFile {
  std::string name;
  std::string path;
  // As seen when the header was read.
  int64_t bytes = 0;
  struct timespec modified = {};
  ino_t inode = 0;
  const std::byte* data = nullptr;  // null: not mapped

  ~OpenFile() {
    if (data != nullptr) munmap(const_cast<std::byte*>(data), static_cast<size_t>(bytes));
  }
};

Checkpoint::Checkpoint(std::string dir) : dir_(std::move(dir)) {}
Checkpoint::~Checkpoint() = default;

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& dir) {
  return OpenImpl(dir, nullptr);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenFor(
    const std::string& dir, std::span<const std::string> names) {
  return OpenImpl(dir, &names);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenImpl(
    const std::string& dir, const std::span<const std::string>* names) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(dir));
  if (Exists(dir + "/" + kSingleFile)) {
    TUTTI_RETURN_IF_ERROR(checkpoint->AddFile(kSingleFile, nullptr));
    return checkpoint;
  }
  const std::string index = dir + "/" + kIndexFile;
  if (!Exists(index)) return NoCheckpoint(dir);
  TUTTI_ASSIGN_OR_RETURN(const ShardMap shards, ReadIndex(index));
  std::unordered_set<std::string> wanted;
  if (names != nullptr) wanted.insert(names->begin(), names->end());
  for (const auto& [file, tensors] : shards) {
    const bool needed = names == nullptr ||
                        std::any_of(tensors.begin(), tensors.end(),
                                    [&](const std::string& name) { return wanted.contains(name); });
    if (needed) TUTTI_RETURN_IF_ERROR(checkpoint->AddFile(file, &tensors));
  }
  return checkpoint;
}

absl::Status Checkpoint::AddFile(const std::string& name,
                                 const std::vector<std::string>* expected_tensors) {
  auto file = std::make_unique<OpenFile>();
  file->name = name;
  file->path = dir_ + "/" + name;
  struct stat info;
  absl::StatusOr<FileDescriptor> fd = OpenRegular(file->path, &info);
  if (!fd.ok() && expected_tensors != nullptr) {
    return Annotate(fd.status(), absl::StrCat("a shard named by ", kIndexFile));
  }
  TUTTI_RETURN_IF_ERROR(fd.status());
  file->bytes = info.st_size;
  file->modified = info.st_mtim;
  file->inode = info.st_ino;

  TUTTI_ASSIGN_OR_RETURN(
      const std::string prefix,
      ReadBytes(fd->get(), file->path, 0, std::min(file->bytes, kSafetensorsPrefixBytes)));
  const absl::StatusOr<int64_t> header_bytes = SafetensorsHeaderBytes(prefix, file->bytes);
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), file->path);
  TUTTI_ASSIGN_OR_RETURN(const std::string header,
                         ReadBytes(fd->get(), file->path, kSafetensorsPrefixBytes, *header_bytes));
  absl::StatusOr<std::vector<TensorInfo>> tensors = ParseSafetensorsHeader(header, file->bytes);
  if (!tensors.ok()) return Annotate(tensors.status(), file->path);

  // Tensors of this shard that the index does not list are not part of the checkpoint.
  std::unordered_set<std::string> expected;
  if (expected_tensors != nullptr)
    expected.insert(expected_tensors->begin(), expected_tensors->end());
  for (TensorInfo& tensor : *tensors) {
    if (expected_tensors != nullptr && expected.erase(tensor.name) == 0) continue;
    tensor.file = static_cast<int32_t>(files_.size());
    by_name_.emplace(tensor.name, tensors_.size());
    tensors_.push_back(std::move(tensor));
  }
  if (!expected.empty()) {
    const std::string& missing = *std::min_element(expected.begin(), expected.end());
    return absl::InvalidArgumentError(absl::StrCat(file->path, ": tensor ", Quoted(missing),
                                                   " is missing, though ", kIndexFile,
                                                   " names this file for it"));
  }
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

const TensorInfo* Checkpoint::Find(std::string_view name) const {
  const auto at = by_name_.find(std::string(name));
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

absl::Status Checkpoint::MapFile(OpenFile& file) {
  struct stat info;
  TUTTI_ASSIGN_OR_RETURN(const FileDescriptor fd, OpenRegular(file.path, &info));
  if (info.st_size != file.bytes || info.st_ino != file.inode ||
      info.st_mtim.tv_sec != file.modified.tv_sec ||
      info.st_mtim.tv_nsec != file.modified.tv_nsec) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.path, ": changed since its header was read"));
  }
  void* data = mmap(nullptr, static_cast<size_t>(file.bytes), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return Annotate(SystemError(file.path, errno), "cannot map");
  file.data = static_cast<const std::byte*>(data);
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::byte>> Checkpoint::Map(std::string_view name) {
  const TensorInfo* tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(dir_, ": no tensor ", Quoted(name), " in the checkpoint"));
  }
  OpenFile& file = *files_[static_cast<size_t>(tensor->file)];
  if (file.data == nullptr) TUTTI_RETURN_IF_ERROR(MapFile(file));
  return std::span<const std::byte>(file.data + tensor->offset, static_cast<size_t>(tensor->bytes));
}

void Checkpoint::AdviseSequential(std::span<const std::byte> bytes) {
  Advise(bytes, MADV_SEQUENTIAL);
}

void Checkpoint::ReleasePages(std::span<const std::byte> bytes) { Advise(bytes, MADV_DONTNEED); }

std::vector<Checkpoint::File> Checkpoint::files() const {
  std::vector<File> out;
  for (const auto& file : files_) {
    out.push_back({.name = file->name, .bytes = file->bytes, .mapped = file->data != nullptr});
  }
  return out;
}

}  // namespace tutti::model
