// Whether the workers of a pipeline have read the checkpoint that the coordinator has, and hold the
// bytes that were planned, and which workers have to stay away for a while because they do not.
//
// The coordinator's own digests come while it starts; until then nothing that a worker read can be
// compared, and no pipeline serves. Without EngineOptions::compare_checkpoint everything agrees.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/fleet/membership.h"
#include "model/checkpoint_digests.h"
#include "placement/placement.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

// Bytes that a shard takes as planned for the rows that it keeps for the stage after.
int64_t PlannedKeptRowBytes(const EngineOptions& options, const v1::AssignShard& assigned);

class ShardCheck {
 public:
  // REQUIRES: `options` outlives this
  explicit ShardCheck(const EngineOptions* options) : options_(options) {}

  void HandleDigests(const CheckpointDigested& event);
  // Whether shards can be compared, or need not be.
  bool ready() const { return !options_->compare_checkpoint || digests_ != nullptr; }
  // Why not, for people: "comparing the checkpoint: 43 %".
  const std::string& WhyNot() const { return why_not_; }

  // DATA_LOSS: the worker read other bytes. INVALID_ARGUMENT: it did not say what it read.
  // REQUIRES: ready()
  absl::Status Compare(const placement::StagePlacement& stage, int32_t rank,
                       const v1::ShardReady& ready) const;

  // INVALID_ARGUMENT: the worker's shard takes other bytes than planned, or more of what may take
  // fewer (work space, kept rows): of which kind, and how many.
  absl::Status CompareMemory(const Worker& worker, const placement::RankPlacement& planned,
                             const v1::AssignShard& assigned, const v1::ShardReady& ready) const;

  // A worker that read other bytes, or holds another number of them, lets go of its shard, and may
  // not join for a while, longer every time. The caller loses it.
  void Refuse(const Worker& worker, const absl::Status& why, Instant now,
              std::vector<Action>* actions);
  // FAILED_PRECONDITION: it is barred; why, and for how long.
  absl::Status MayJoin(const std::string& worker_id, Instant now) const;

 private:
  struct Barred {
    Instant until;
    int32_t times = 0;
    std::string why;
  };

  void Bar(const std::string& worker_id, const absl::Status& why, Instant now);

  const EngineOptions* const options_;
  std::shared_ptr<const model::CheckpointDigests> digests_;
  std::string why_not_ = "comparing the checkpoint: 0 %";
  std::map<std::string, Barred> barred_;  // by worker id; at most kBarredWorkersMax
};

}  // namespace tutti::coordinator
