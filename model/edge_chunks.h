// Chunks of a checkpoint's files that readers want parts of, each of another tensor: the last few
// are kept, and each of them is read by one reader, for which the others wait.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti::model {

class EdgeChunks {
 public:
  // Keeps so many chunks, or as many as were in use at once if that is more.  REQUIRES: kept > 0
  explicit EdgeChunks(size_t kept) : kept_(kept) {}

  // Calls `use` with the chunk's bytes, which are valid until it returns. Where they are not kept
  // `read` gives the vector their size and fills it, or says why it could not; the next one that
  // wants the chunk tries again.
  //
  // Errors: those of `read`.  REQUIRES: `read` does not call With
  absl::Status With(int32_t file, int64_t chunk,
                    absl::FunctionRef<absl::Status(std::vector<std::byte>*)> read,
                    absl::FunctionRef<void(std::span<const std::byte>)> use);

 private:
  struct Entry {
    int32_t file = -1;
    int64_t chunk = 0;
    uint64_t used = 0;  // the number of the last use
    int users = 0;      // of those that are inside With

    // The mutex of the one that reads; who has seen `is_read` under it may use `bytes` while it is
    // a user.
    Mutex reading;
    bool is_read ABSL_GUARDED_BY(reading) = false;
    std::vector<std::byte> bytes;
  };

  Entry* Acquire(int32_t file, int64_t chunk) ABSL_LOCKS_EXCLUDED(mutex_);
  void Release(Entry* entry) ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t kept_;
  Mutex mutex_;
  // All members of entries but those that say otherwise are guarded by it too.
  std::vector<std::unique_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tutti::model
