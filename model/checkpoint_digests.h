// The digests of a whole checkpoint, as the coordinator knows them, and the comparison with what a
// worker read.
//
// Thread: constant; any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/checkpoint.h"
#include "model/chunk_digest.h"
#include "model/partition.h"

namespace tutti::model {

class CheckpointDigests {
 public:
  // digests   [files of the checkpoint][chunks of the file * kChunkDigestBytes]
  CheckpointDigests(std::shared_ptr<const Checkpoint> checkpoint, std::vector<std::string> digests);

  // Whether the runs are those of all that such a shard reads, with our digests.
  //
  // INVALID_ARGUMENT: a run is no run of this checkpoint, or a chunk of the shard is not there.
  // DATA_LOSS: bytes differ; names the file, the first range of bytes, the tensors in it, both
  // digests, and what to do.
  //
  // REQUIRES: CheckStageShare and CheckRanks are OK
  absl::Status Compare(const ModelConfig& config, const StageShare& share, int ranks, int rank,
                       std::span<const ChunkRun> runs) const;

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  std::string_view Of(int32_t file, int64_t chunk) const;

 private:
  int32_t FileOf(const std::string& name) const;  // -1: none
  absl::Status CheckRun(const ChunkRun& run) const;
  absl::Status CheckComplete(const std::vector<ChunkRange>& wanted,
                             const std::vector<ChunkRange>& read) const;
  absl::Status CompareRuns(std::span<const ChunkRun> runs) const;
  std::string TensorsIn(int32_t file, int64_t begin, int64_t end) const;

  const std::shared_ptr<const Checkpoint> checkpoint_;
  const std::vector<std::string> digests_;
};

}  // namespace tutti::model
