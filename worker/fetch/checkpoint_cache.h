// The parts of a checkpoint that this worker has fetched: a folder that looks like the checkpoint's
// own, whose files have holes where nothing was fetched yet.
//
// No list says which parts are there: a part is there when its bytes have the digest that the
// coordinator gives for it. So nothing that breaks off, or is written to by mistake, can be taken
// for right.
//
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/chunk_digest.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

class CheckpointCache {
 public:
  // Opens the folder of such a checkpoint below `dir`, and makes both where they are not there. It
  // is this object's alone while it lives.
  //
  // INVALID_ARGUMENT: a fingerprint, name or length that no checkpoint has, or more files.
  // UNAVAILABLE: the system's reason, or another process has the folder.
  static absl::StatusOr<std::unique_ptr<CheckpointCache>> Open(const std::string& dir,
                                                               const v1::CheckpointFiles& about);
  ~CheckpointCache();
  CheckpointCache(const CheckpointCache&) = delete;
  CheckpointCache& operator=(const CheckpointCache&) = delete;

  struct File {
    std::string name;
    int64_t bytes = 0;
    int64_t header_bytes = 0;  // of a file of weights
  };
  const std::vector<File>& files() const { return files_; }
  int32_t Find(std::string_view name) const;  // -1: none
  // The folder, as a checkpoint's.
  const std::string& folder() const { return folder_; }

  // REQUIRES for all below: the file has such a chunk

  int64_t BytesOf(int32_t file, int64_t chunk) const;
  // Whether the chunk is there.   [kChunkDigestBytes] `damaged`: it was something else, not a hole.
  // UNAVAILABLE: the system's reason.
  absl::StatusOr<bool> Has(int32_t file, int64_t chunk, std::string_view digest, bool* damaged);
  // Writes it.   [BytesOf] RESOURCE_EXHAUSTED: the disk is full. UNAVAILABLE: the system's reason.
  absl::Status Put(int32_t file, int64_t chunk, std::span<const std::byte> bytes);
  // RESOURCE_EXHAUSTED: so many bytes do not fit on its disk; says how many would.
  absl::Status CheckRoom(int64_t bytes) const;

 private:
  CheckpointCache() = default;
  absl::Status Add(const v1::CheckpointFile& file);
  absl::Status MakeFolder(const std::string& dir, const std::string& fingerprint);
  absl::Status Select(int32_t file);
  absl::Status SystemError(const char* what, const std::string& path) const;
  std::string PathOf(int32_t file) const;

  std::string folder_;
  std::vector<File> files_;
  int lock_ = -1;
  // One file is open at a time.
  int open_ = -1;
  int32_t open_number_ = -1;
  std::vector<std::byte> buffer_;  // kept for its memory
};

}  // namespace tutti::worker
