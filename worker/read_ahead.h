// Reads the parts of a checkpoint that a shard is made of, in their order, a few threads ahead of
// the one that packs them, and digests what is read.
//
// Reading from the page cache and hashing take a third of the time of packing, so without threads
// of its own they would make loading slower by as much.
//
// Thread: the one that loads, for every method.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "kernels/backend.h"
#include "model/checkpoint.h"
#include "model/chunk_digest.h"
#include "model/chunk_reader.h"

namespace tutti::worker {

// The weights that are packed at once: its slices are read one behind the other, without gaps.
struct ReadItem {
  struct Part {
    const model::TensorInfo* tensor = nullptr;
    model::TensorSlice slice;
  };
  std::vector<Part> parts;
  int64_t bytes() const;
};

class ReadAhead {
 public:
  // Begins to read. At most `bytes_ahead` are held, or one item if that is larger.
  // REQUIRES: `checkpoint` outlives this
  ReadAhead(const model::Checkpoint* checkpoint, std::vector<ReadItem> items, int threads,
            int64_t bytes_ahead);
  ~ReadAhead();

  // The bytes of the next item, valid until the next call. Waits for them; `moving` is called now
  // and then while bytes arrive meanwhile.
  //
  // Errors: those of ChunkReader::Read; RESOURCE_EXHAUSTED. Then nothing more is read.
  // REQUIRES: there is one more item
  absl::StatusOr<std::span<const std::byte>> Next(const std::function<void()>& moving);

  // Called after the last item: the digests of all chunks that were read. FAILED_PRECONDITION: a
  // file changed meanwhile; names it.
  absl::StatusOr<std::vector<model::ChunkRun>> Finish();

 private:
  struct Slot {
    std::unique_ptr<kernels::DeviceBuffer> buffer;
    bool done = false;
    absl::Status status;
  };

  void Run(model::ChunkReader* reader);
  absl::Status ReadInto(model::ChunkReader* reader, const ReadItem& item, std::byte* out);
  // The number of the next item to read, once there is room for it; items_.size(): none is left.
  size_t Claim() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::unique_ptr<kernels::DeviceBuffer>> AcquireBuffer(int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(size_t item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Join() ABSL_LOCKS_EXCLUDED(mutex_);

  const model::Checkpoint* const checkpoint_;
  const std::vector<ReadItem> items_;
  const int64_t bytes_ahead_;
  std::vector<std::unique_ptr<model::ChunkReader>> readers_;  // one of each thread
  std::vector<std::thread> threads_;
  absl::Status no_thread_;  // why there is none
  size_t taken_ = 0;        // items that Next has handed out
  std::atomic<int64_t> bytes_read_{0};

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);  // [items]
  std::vector<std::unique_ptr<kernels::DeviceBuffer>> spare_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti::worker
