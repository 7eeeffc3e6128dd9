// Gets what a shard is made of from the coordinator, for a worker without the checkpoint on its
// disk: the configuration before it joins, and after each assignment the chunks of the shard's
// tensors and of their files' headers, no others. What is in the cache with the right digest is not
// fetched again.
//
// Thread: one, which may wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/chunk_digest.h"
#include "model/model_config.h"
#include "model/weight_map.h"
#include "proto/peer_messages.h"
#include "worker/fetch/checkpoint_cache.h"
#include "worker/fetch/weights_talk.h"

namespace tutti::worker {

// The progress of a fetch: of the bytes that were not there when it began.
struct FetchProgress {
  int64_t fetched_bytes = 0;
  int64_t all_bytes = 0;
  double bytes_per_second = 0;  // of late
};
// Called when it begins to fetch, then every kFetchTellInterval, and at its end.
using FetchCallback = std::function<void(const FetchProgress&)>;

class ShardFetch {
 public:
  // Waits for a coordinator that leads, for as long as `keep_on` says, and gets the configuration.
  //
  // Errors: of CheckpointCache::Open and LoadModelConfig; DATA_LOSS; that of keep_on.
  static absl::StatusOr<std::unique_ptr<ShardFetch>> Open(const std::string& cache_dir,
                                                          WeightsTalk::Options talk,
                                                          const KeepOn& keep_on);

  // A folder that is a checkpoint's as far as fetched shards need it.
  const std::string& folder() const { return cache_->folder(); }
  const std::string& fingerprint() const { return fingerprint_; }
  const model::ModelConfig& config() const { return config_; }

  // Fetches what the shard needs and the cache lacks.
  //
  // INVALID_ARGUMENT: a shard that the model does not have, or a hostile answer. UNAVAILABLE: no
  // answer for kFetchPatience; what came is kept. DATA_LOSS: a chunk that comes with another
  // digest every time; names it. RESOURCE_EXHAUSTED: the disk is full. Or that of keep_on.
  absl::Status Fetch(const v1::AssignShard& shard, const FetchCallback& tell,
                     const KeepOn& keep_on);

  // Counted since it was opened.  Thread: any.
  uint64_t fetched_bytes() const { return fetched_bytes_; }
  uint64_t wrong_chunks() const { return wrong_chunks_; }

 private:
  // A chunk, and the digest that it must have.
  struct Wanted {
    int32_t file = 0;
    int64_t chunk = 0;
    std::string digest;
    int tries = 0;
  };
  class Meter;

  explicit ShardFetch(WeightsTalk::Options talk) : clock_(talk.clock), talk_(std::move(talk)) {}

  absl::Status FetchConfig(const std::string& cache_dir, const KeepOn& keep_on);
  absl::StatusOr<v1::CheckpointFiles> AskFiles(const KeepOn& keep_on);
  // Brings these chunks into the cache; `file` of each is a number of the cache.
  absl::Status MakeThere(const std::vector<model::ChunkRange>& chunks, Duration patience,
                         const FetchCallback& tell, const KeepOn& keep_on);
  absl::StatusOr<std::vector<Wanted>> AskDigests(const std::vector<model::ChunkRange>& chunks,
                                                 Duration patience, const KeepOn& keep_on);
  absl::StatusOr<std::vector<Wanted>> Missing(std::vector<Wanted> wanted, const KeepOn& keep_on);
  absl::Status FetchAll(std::vector<Wanted>* wanted, Duration patience, Meter* meter,
                        const KeepOn& keep_on);
  absl::StatusOr<WeightsTalk::Taken> TakeChunk(const WeightsLink::Answer& answer, Wanted* wanted,
                                               Meter* meter);
  absl::StatusOr<std::vector<int32_t>> FilesOf(const std::vector<std::string>& tensors) const;
  absl::StatusOr<std::vector<model::ChunkRange>> ChunksOfShard(
      const model::ModelConfig& config, const model::StageShare& share,
      const std::vector<std::string>& tensors, int ranks, int rank) const;
  model::ChunkRange HeaderOf(int32_t file) const;

  const Clock* const clock_;
  WeightsTalk talk_;
  std::unique_ptr<CheckpointCache> cache_;
  std::string fingerprint_;
  model::ModelConfig config_;
  std::atomic<uint64_t> fetched_bytes_{0};
  std::atomic<uint64_t> wrong_chunks_{0};
};

}  // namespace tutti::worker
