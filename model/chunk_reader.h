// Reads parts of a checkpoint's tensors into memory, and digests every chunk of a file that has a
// byte in them: from the memory that the bytes are then used from.
//
// A chunk is read whole, also where the part begins or ends inside of it. The last few such chunks
// are kept (edge_chunks.h), because the neighbouring tensor is often read next, by this reader or
// another. One that is read twice must have the same digest.
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
#include "model/edge_chunks.h"

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
  // `edges`: may be shared by several readers, each chunk of which is then in the report of one.
  // REQUIRES: `checkpoint` outlives the reader, and is that of all readers of `edges`
  ChunkReader(const Checkpoint* checkpoint, std::shared_ptr<EdgeChunks> edges);

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

  // The digests of all chunks that this reader and those merged into it have read, in ascending
  // order.
  std::vector<ChunkRun> Report() const;

 private:
  struct FileDigests {
    std::string digests;     // [chunks * kChunkDigestBytes]
    std::vector<bool> seen;  // [chunks]; empty: nothing was read of this file
  };

  absl::Status Select(int32_t file);
  absl::Status ReadChunk(int64_t chunk, std::span<std::byte> out);
  absl::Status Note(int32_t file, int64_t chunk, const char* digest);
  int64_t BytesOfChunk(int32_t file, int64_t chunk) const;
  void Expand(int32_t file);

  const Checkpoint* const checkpoint_;
  // One file is open at a time: a checkpoint may have more files than a process descriptors.
  CheckpointFile open_;
  int32_t open_number_ = -1;
  std::vector<FileDigests> files_;
  const std::shared_ptr<EdgeChunks> edges_;
};

// The chunks that such a slice has a byte in, and those between.  REQUIRES: as Read
ChunkRange ChunksOf(const TensorInfo& tensor, const TensorSlice& slice);

// Whether one frame holds the digests of these chunks. RESOURCE_EXHAUSTED says how many there are,
// and the remedy.  REQUIRES: joined
absl::Status CheckReport(const std::vector<ChunkRange>& chunks, const Checkpoint& checkpoint);

}  // namespace tutti::model
