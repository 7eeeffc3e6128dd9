// The files that workers without the checkpoint may have of it: its configuration, its index and
// its weights, by file and chunk, each chunk with its digest.
//
// Nothing else of the disk can be asked for: names are looked up among these files.
//
// Thread: constant; any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/checkpoint_digests.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

class WeightsFiles {
 public:
  // Reads the configuration and the index. NOT_FOUND, UNAVAILABLE: a file cannot be read.
  // INVALID_ARGUMENT: one has a name that no message carries.
  static absl::StatusOr<std::shared_ptr<const WeightsFiles>> Open(
      const std::string& fingerprint, std::shared_ptr<const model::CheckpointDigests> digests);

  struct Answer {
    v1::Frame frame;
    std::vector<std::byte> payload;  // of a file_chunk
  };
  // Answers files_wanted, digests_wanted and file_chunk_wanted; reads the disk for the last.
  // `joined`: whoever asks has joined. For others the bytes behind a file's header, in a chunk that
  // has both, are zeros, and the chunk's digest is that of such a chunk.
  //
  // INVALID_ARGUMENT: another frame, or a file or chunk that is not there. FAILED_PRECONDITION,
  // UNAVAILABLE, DATA_LOSS: the file changed, cannot be read, or has other bytes than it had.
  absl::StatusOr<Answer> AnswerTo(const v1::Frame& question, bool joined) const;

  // Bytes of the chunk that is asked for; 0: none is.
  int64_t ChunkBytes(const v1::Frame& question) const;
  // Whether it lies wholly behind the header of a file of weights.
  bool IsOfWeights(const v1::FileChunkWanted& wanted) const;

 private:
  struct File {
    std::string name;
    int64_t bytes = 0;
    int64_t header_bytes = 0;  // 0: a text
    int32_t number = -1;       // in the checkpoint; -1: a text
    std::string text;
    std::string text_digests;
  };

  WeightsFiles() = default;
  absl::Status AddText(const std::string& name, int64_t bytes_max);
  absl::Status AddWeights(int32_t number);
  const File* Find(const std::string& name) const;
  absl::StatusOr<const File*> FindChunks(const std::string& name, int64_t first,
                                         int64_t count) const;
  std::string_view DigestOf(const File& file, int64_t chunk) const;
  // The number of the chunk in which the header ends and weights begin; -1: none.
  static int64_t MixedChunk(const File& file);
  absl::StatusOr<std::vector<std::byte>> ReadChunk(const File& file, int64_t chunk,
                                                   bool joined) const;
  absl::StatusOr<Answer> AnswerDigests(const v1::DigestsWanted& wanted, bool joined) const;
  absl::StatusOr<Answer> AnswerChunk(const v1::FileChunkWanted& wanted, bool joined) const;

  std::string fingerprint_;
  std::shared_ptr<const model::CheckpointDigests> digests_;
  std::vector<File> files_;
};

}  // namespace tutti::coordinator
