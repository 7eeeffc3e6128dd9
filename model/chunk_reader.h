// Reads parts of a checkpoint's tensors into memory, and digests every chunk of a file that has a
// byte in them: from the memory that the bytes are then used from.
//
// A chunk is read whole, also where the part begins or ends inside of it. The last few such chunks
// are kept, because the neighbouring tensor is often read next. One that is read twice must have
// the same digest.
//
// Thread: one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/checkpoint.h"
#include "model/chunk_digest.h"

namespace tutti::model {

// Rows of a tensor, `stride` bytes from the beginning of one to that of the next.
struct TensorSlice {
  int64_t begin = 0;  // of the first row, in bytes from the beginning of the tensor
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int64_t stride = 0;
  int64_t bytes() const { return rows * row_bytes; }
};

class ChunkReader {
 public:
  // REQUIRES: `checkpoint` outlives the reader
  explicit ChunkReader(const Checkpoint* checkpoint);

  // Copies the rows to `out`, without gaps.   [slice.bytes()]
  //
  // Errors name the file, the tensor and the byte. FAILED_PRECONDITION: the file changed since the
  // checkpoint was opened, or while it was read. UNAVAILABLE: the system's reason.
  //
  // `bytes_read`, if not null, grows with every chunk.
  //
  // REQUIRES: the tensor is of the checkpoint, and the slice lies within it
  absl::Status Read(const TensorInfo& tensor, const TensorSlice& slice, std::byte* out,
                    std::atomic<int64_t>* bytes_read = nullptr);

  // Adds the digests of another reader of the same checkpoint. FAILED_PRECONDITION: they read
  // different bytes of the same chunk.
  absl::Status Merge(const ChunkReader& other);

  // Whether all files that were read from are still the same. FAILED_PRECONDITION names one that is
  // not.
  absl::Status CheckUnchanged() const;

  // The digests of all chunks read so far, in ascending order.
  std::vector<ChunkRun> Report() const;

 private:
  struct FileDigests {
    std::string digests;     // [chunks * kChunkDigestBytes]
    std::vector<bool> seen;  // [chunks]; empty: nothing was read of this file
  };
  // A chunk that only a part was wanted of.
  struct EdgeChunk {
    int32_t file = -1;
    int64_t chunk = 0;
    uint64_t used = 0;
    std::vector<std::byte> bytes;
  };

  absl::Status Select(int32_t file);
  absl::Status ReadChunk(int64_t chunk, std::span<std::byte> out);
  absl::StatusOr<const EdgeChunk*> FetchEdge(int64_t chunk);
  absl::Status Note(int32_t file, int64_t chunk, const char* digest);
  int64_t BytesOfChunk(int32_t file, int64_t chunk) const;
  void Expand(int32_t file);

  const Checkpoint* const checkpoint_;
  // One file is open at a time: a checkpoint may have more files than a process descriptors.
  CheckpointFile open_;
  int32_t open_number_ = -1;
  std::vector<FileDigests> files_;
  std::vector<EdgeChunk> edges_;
  uint64_t uses_ = 0;
};

// The chunks that such a slice has a byte in, and those between.  REQUIRES: as Read
ChunkRange ChunksOf(const TensorInfo& tensor, const TensorSlice& slice);

// Whether one frame holds the digests of these chunks. RESOURCE_EXHAUSTED says how many there are,
// and the remedy.  REQUIRES: joined
absl::Status CheckReport(const std::vector<ChunkRange>& chunks, const Checkpoint& checkpoint);

}  // namespace tutti::model
