// One file of a checkpoint: how it is opened and read, and whether it is still the one that was
// seen first.
//
// Files are read into memory of ours and never mapped: a mapped file that somebody truncates, or
// whose disk fails, ends the process with SIGBUS at the next access, and a read says what is wrong.
//
// Thread: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace tutti::model {

// The mark that tells a file from others, and from itself before it was written to.
struct FileIdentity {
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  int64_t changed_ns = 0;   // of its inode; cannot be set back
  uint64_t inode = 0;
  uint64_t device = 0;
  bool operator==(const FileIdentity&) const = default;
  // Whether its bytes should be the same: all but changed_ns, which moves with its mode and links
  // too.
  bool SameContents(const FileIdentity& other) const;
};

class CheckpointFile {
 public:
  CheckpointFile() = default;
  ~CheckpointFile();
  CheckpointFile(CheckpointFile&& other) noexcept;
  CheckpointFile& operator=(CheckpointFile&& other) noexcept;

  // NOT_FOUND: no such file. INVALID_ARGUMENT: not a regular file. UNAVAILABLE: the system's
  // reason. All name the path.
  static absl::StatusOr<CheckpointFile> Open(const std::string& path);
  // The same, for a file that was seen before. FAILED_PRECONDITION: it changed since.
  static absl::StatusOr<CheckpointFile> OpenUnchanged(const std::string& path,
                                                      const FileIdentity& seen);

  const std::string& path() const { return path_; }
  // The identity as it was when it was opened.
  const FileIdentity& identity() const { return identity_; }

  // Fills `out` from byte `offset` on. FAILED_PRECONDITION: the file ends before, so it shrank.
  // UNAVAILABLE: the system's reason. Both name path and offset.
  absl::Status Read(int64_t offset, std::span<std::byte> out) const;
  // Says that these bytes are read next.
  void Prefetch(int64_t offset, int64_t bytes) const;

 private:
  std::string path_;
  FileIdentity identity_;
  int descriptor_ = -1;
};

// Whether the file of that name is still the one that was seen. FAILED_PRECONDITION names it.
absl::Status CheckUnchanged(const std::string& path, const FileIdentity& seen);

}  // namespace tutti::model
