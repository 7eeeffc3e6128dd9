// One pipeline: its state, its epoch, and which worker serves which stage and rank. How far each of
// them has come with the steps of the epoch is in its StepLedger.
//
// It forms from idle workers, loads, serves, and ends when one of its workers is lost; every
// beginning and every end is a new epoch. Epochs are counted over all pipelines, so that no frame
// of one can pass for another's.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/forming.h"
#include "coordinator/membership.h"
#include "coordinator/step_ledger.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class Pipeline {
 public:
  enum class State { kWaiting, kLoading, kServing };

  // REQUIRES: `options`, `membership` and `last_epoch` outlive the pipeline. `last_epoch` is the
  // counter that all pipelines share.
  Pipeline(PipelineId id, const EngineOptions* options, Membership* membership, Epoch* last_epoch)
      : id_(id), options_(options), membership_(membership), last_epoch_(last_epoch) {}

  PipelineId id() const { return id_; }
  State state() const { return state_; }
  Epoch epoch() const { return epoch_; }
  int32_t num_blocks() const { return num_blocks_; }
  // Whether this worker sends the sampled tokens: rank 0 of the last stage.
  bool TellsResults(const Worker& worker) const {
    return worker.stage + 1 == num_stages() && worker.rank == 0;
  }
  int32_t num_stages() const { return static_cast<int32_t>(stages_.size()); }
  // Why it does not serve, for people.
  std::string WhyNot() const;

  // Whether it waits for workers, and is past the pause after failures.
  bool WantsWorkers(Instant now) const {
    return state_ == State::kWaiting && (!back_off_until_.has_value() || now >= *back_off_until_);
  }
  // Begins the next epoch: tells every worker its shard.  REQUIRES: WantsWorkers, all are idle
  void Form(const Formation& formation, Instant now, std::vector<Action>* actions);
  // Notes why it could not form.  REQUIRES: WantsWorkers
  void CannotForm(std::string why) {
    back_off_until_.reset();
    cannot_form_ = std::move(why);
  }
  // A worker of this pipeline was lost, or loading took too long. Its workers are idle again; they
  // keep the shards that they have loaded.
  void End(const std::string& why, Instant now);

  // Frames of the current epoch, from a worker of this pipeline. An error: the frame contradicts
  // the state of the pipeline, or itself.
  absl::Status OnShardProgress(const Worker& worker, const v1::ShardProgress& progress);
  absl::Status OnShardReady(const Worker& worker, const v1::ShardReady& ready, Instant now);
  absl::Status OnStepDone(Worker* worker, const v1::StepDone& done, Instant now);

  // Sends a step to every worker.  REQUIRES: serving; the step after the last one sent
  void SendPlan(v1::StepPlan plan, Instant now, std::vector<Action>* actions);

  // The link of a worker that has everything for its next step and makes no progress; why.
  struct Stuck {
    LinkKey link;
    std::string why;
  };
  std::optional<Stuck> FindStuck(Instant now) const;
  // The worker to blame when one gave up waiting for another rank: follows the chain of waits, for
  // an exchange or for an activation, to a worker that waits for none or that the chain leads back
  // to.  REQUIRES: the worker has a part in this pipeline
  const Worker& Culprit(const Worker& gave_up) const;
  bool LoadTimedOut(Instant now) const;
  // When WantsWorkers, FindStuck or LoadTimedOut may change though nothing happens.
  Instant next_deadline() const;

  // "worker w2 (stage 1)", "worker w3 (stage 1 rank 1)"
  std::string Describe(const Worker& worker) const;
  void FillStatus(Instant now, v1::PipelineStatus* status) const;
  // The workers that hold the K/V of a prompt's first `tokens` tokens.  REQUIRES: they fill whole
  // blocks here
  void FillHolding(int32_t tokens, v1::PrefixHolding* holding) const;

 private:
  // One worker's part: a rank of a stage.
  struct Shard {
    LinkKey link;
    int32_t stage = 0;
    int32_t rank = 0;
    placement::RankPlacement placement;
    bool ready = false;
    v1::ShardReady actual;
    v1::ShardProgress progress;
  };
  struct Stage {
    placement::StagePlacement placement;
    size_t first_shard = 0;  // of its ranks, in order
    size_t ranks() const { return placement.ranks.size(); }
  };

  v1::Frame AssignFrame(const Shard& shard, const Formation& formation) const;
  // In shards_ and in the ledger.
  size_t IndexOf(const Worker& worker) const;
  // Since when a worker with everything for its next step has made no progress; nothing: it lacks
  // its next step or input, or waits for another rank.
  std::optional<Instant> IdleSince(size_t shard) const;
  const Worker* AwaitedRank(const Worker& worker) const;
  const Worker* AwaitedFeeder(const Worker& worker) const;
  void FillShard(size_t number, Instant now, v1::StageStatus* status) const;

  const PipelineId id_;
  const EngineOptions* const options_;
  Membership* const membership_;
  Epoch* const last_epoch_;
  State state_ = State::kWaiting;
  Epoch epoch_;
  int32_t num_blocks_ = 0;
  std::vector<Stage> stages_;  // empty while waiting
  std::vector<Shard> shards_;  // stage by stage, rank by rank
  StepLedger ledger_;          // of shards_, in their order
  Instant formed_at_;
  Instant serving_since_;
  std::string cannot_form_;  // why the last attempt found no placement
  std::string last_end_;     // why the last epoch ended
  int32_t failures_ = 0;     // epochs in a row that ended soon
  std::optional<Instant> back_off_until_;
};

}  // namespace tutti::coordinator
