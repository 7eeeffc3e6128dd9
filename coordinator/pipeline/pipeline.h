// One pipeline: its state, its epoch, and which worker serves which stage and rank. How far each of
// them has come with the steps of the epoch is in its StepLedger.
//
// It forms from idle workers, loads, links, serves, and ends when one of its workers or links is
// lost; every beginning and every end is a new epoch. Linking is the way of one row, the probe,
// through all its workers: step 0 of the epoch, of which no scheduler knows. Epochs are counted
// over all pipelines, so that no frame of one can pass for another's.
//
// Its functions are in three files, because loading is a protocol of its own (pipeline_shards.cc),
// and so is what people are told (pipeline_status.cc).
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
#include "coordinator/fleet/forming.h"
#include "coordinator/fleet/membership.h"
#include "coordinator/fleet/shard_check.h"
#include "coordinator/kv/lacking_blocks.h"
#include "coordinator/limits.h"
#include "coordinator/pipeline/pipeline_links.h"
#include "coordinator/pipeline/step_ledger.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class Pipeline {
 public:
  enum class State { kWaiting, kLoading, kLinking, kServing };

  // REQUIRES: what is pointed at outlives the pipeline. `last_epoch` is the counter that all
  // pipelines share.
  Pipeline(PipelineId id, const EngineOptions* options, Membership* membership, Epoch* last_epoch,
           const ShardCheck* check)
      : id_(id),
        options_(options),
        membership_(membership),
        last_epoch_(last_epoch),
        check_(check) {}

  PipelineId id() const { return id_; }
  State state() const { return state_; }
  Epoch epoch() const { return epoch_; }
  int32_t num_blocks() const { return num_blocks_; }
  // Whether this worker sends the sampled tokens: rank 0 of the last stage.
  bool TellsResults(const Worker& worker) const {
    return worker.stage + 1 == num_stages() && worker.rank == 0;
  }
  // The numerics class in which its layers are computed: where workers of several classes are
  // mixed, each with the layers it computes. Equal texts compute equal bits.  REQUIRES: not waiting
  std::string NumericsOfLayers() const;
  // Whether all its workers compute in exact classes.  REQUIRES: not waiting
  bool IsExact() const;
  int32_t num_stages() const { return static_cast<int32_t>(stages_.size()); }
  // Why it does not serve, for people.
  std::string WhyNot() const;

  // Begins the next epoch: tells every worker its shard. `free_block`: workers may go on with K/V
  // of the epoch that served last, and the probe takes this block; none: they do not.
  // REQUIRES: waiting, all are idle
  void Form(const Formation& formation, std::optional<BlockId> free_block, Instant now,
            std::vector<Action>* actions);
  // The contents that the workers have said that they go on with.  REQUIRES: linking or serving
  KvSurvival Survival() const;
  // Notes why it could not form.  REQUIRES: waiting
  void CannotForm(std::string why) { cannot_form_ = std::move(why); }
  // A worker or link of this pipeline was lost, or loading did not get on. Its workers are idle
  // again; they keep the shards that they have loaded.  REQUIRES: not waiting
  void End(const std::string& why);
  // Whether it has served for long enough that its composition is not what ended it.
  bool HasServedLong(Instant now) const {
    return state_ == State::kServing && now - serving_since_ >= kStableServing;
  }

  // Frames of the current epoch, from a worker of this pipeline. An error: the frame contradicts
  // the state of the pipeline, or itself.
  absl::Status OnShardProgress(const Worker& worker, const v1::ShardProgress& progress,
                               Instant now);
  // The last one that was missing begins linking: the probe goes to every worker. DATA_LOSS and
  // INVALID_ARGUMENT: as ShardCheck::Compare and CompareMemory.
  absl::Status OnShardReady(const Worker& worker, const v1::ShardReady& ready, Instant now,
                            std::vector<Action>* actions);
  // The coordinator's digests have come. The first worker that read other bytes, and why it is
  // refused; none: the pipeline begins linking if all have loaded.
  struct Refused {
    LinkKey link;
    absl::Status why;
  };
  std::optional<Refused> CompareShards(Instant now, std::vector<Action>* actions);
  absl::Status OnLinkState(const Worker& worker, const v1::LinkState& state);
  // A worker has done the probe; when all have, the pipeline serves.  REQUIRES: linking
  absl::Status OnProbeDone(Worker* worker, uint64_t step, Instant now);
  absl::Status OnStepDone(Worker* worker, const v1::StepDone& done, Instant now);
  // The last step that all its workers have done.
  uint64_t done_by_all() const { return ledger_.done_by_all(); }

  // The times of its steps, of this epoch.
  const StepTimes& times() const { return ledger_.times(); }

  // Sends a step to every worker.  REQUIRES: serving; the step after the last one sent
  void SendPlan(v1::StepPlan plan, Instant now, std::vector<Action>* actions);

  // The link of a worker that has everything for its next step and makes no progress; why.
  struct Stuck {
    LinkKey link;
    std::string why;
  };
  std::optional<Stuck> FindStuck(Instant now) const;
  // A worker whose place should move, because it has been slow for long; why, without its name.
  // Nothing of a pipeline that does not serve.
  std::optional<Stuck> FindSlow() const;
  // A link that failed.
  struct FailedLink {
    std::string from;  // worker ids
    std::string to;
    std::string why;  // "the activation link from w0 to w1 failed: connection refused"
  };
  // The first link that this worker has reported to be down.
  std::optional<FailedLink> FailedLinkOf(const Worker& worker) const;
  // Whether its step waits for another rank, says the worker.
  bool WaitsForRank(const Worker& worker) const { return AwaitedRank(worker) != nullptr; }
  // The link through which nothing comes, when a worker gave up waiting for another rank: follows
  // the chain of waits, for an exchange or for an activation, to its last two, or until it leads
  // back. Nothing: its last worker has not done its step yet, and feeds the one before.
  // REQUIRES: WaitsForRank
  std::optional<FailedLink> FindSilentLink(const Worker& gave_up) const;
  // The cause that keeps the probe, when it has been under way for too long.
  struct Unlinked {
    std::optional<FailedLink> link;
    std::optional<Stuck> worker;  // where no link is to blame
  };
  std::optional<Unlinked> FindUnlinked(Instant now) const;
  // The ids of the workers of which nothing was loaded or fetched for `load_timeout`, while others
  // wait for them. A fetch over a slow link may take hours, as long as bytes come.
  std::vector<std::string> FindLateLoaders(Instant now) const;
  // For so long up to now no worker was heard, through no fault of its own: see Stalled.
  void Forgive(Duration stall, Instant now);
  // The ids of its workers; of those that have not loaded yet only.
  std::vector<std::string> WorkerIds(bool loading_only = false) const;
  const PipelineLinks& links() const { return links_; }
  // When FindStuck, FindUnlinked or FindLateLoaders may change though nothing happens.
  Instant next_deadline() const;

  // "worker w2 (stage 1)", "worker w3 (stage 1 rank 1)"
  std::string Describe(const Worker& worker) const;
  void FillStatus(Instant now, v1::PipelineStatus* status) const;
  // The shard that a worker would be told to load in the place of one of these, and how large it
  // is.
  struct Replaceable {
    const Worker* worker = nullptr;
    const placement::StagePlacement* placement = nullptr;
    const placement::RankPlacement* rank = nullptr;
    const v1::AssignShard* shard = nullptr;
  };
  std::vector<Replaceable> Replaceables() const;
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
    v1::AssignShard assigned;
    uint64_t kv_epoch = 0;  // in which its K/V was begun; see AssignShard
    std::string kept_rows;  // as it said
    bool ready = false;
    bool compared = false;  // what it read, with the coordinator's checkpoint
    bool linked = false;    // it has done the probe
    v1::ShardReady actual;
    v1::ShardProgress progress;
    int64_t most_loaded = 0;   // of all its progress
    int64_t most_fetched = 0;  // since `fetches` was last counted up
    int fetches = 0;           // how often other bytes were to be fetched
    bool GetsOn(const v1::ShardProgress& now);
    Instant moved_at;  // when it was assigned, or last had more bytes fetched or loaded
  };
  struct Stage {
    placement::StagePlacement placement;
    size_t first_shard = 0;  // of its ranks, in order
    size_t ranks() const { return placement.ranks.size(); }
  };
  // A shard of the epoch that served last.
  struct LastShard {
    LinkKey link;
    v1::AssignShard assigned;
    uint64_t kv_epoch = 0;
  };

  uint64_t KvEpochOf(const Shard& shard) const;
  int32_t KeptBlocks(const Shard& shard) const;
  absl::Status TakeKv(Shard* shard, const v1::ShardReady& ready) const;
  absl::Status Compare(Shard* shard) const;
  // When all shards are loaded and agree.
  void LinkIfAllAgree(Instant now, std::vector<Action>* actions);
  bool all_ready() const;
  v1::AssignShard AssignmentOf(const Shard& shard, const Formation& formation) const;
  void SendProbe(std::vector<Action>* actions) const;
  Instant LinkingEnd() const;
  FailedLink Failed(const PipelineLinks::Link& link) const;
  // Its place in shards_ and in the ledger.
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
  const ShardCheck* const check_;
  State state_ = State::kWaiting;
  Epoch epoch_;
  int32_t num_blocks_ = 0;
  std::vector<Stage> stages_;  // empty while waiting
  std::vector<Shard> shards_;  // stage by stage, rank by rank
  std::vector<LastShard> last_shards_;
  BlockId probe_block_;
  StepLedger ledger_;    // of shards_, in their order
  PipelineLinks links_;  // between shards_
  Instant linking_since_;
  Instant serving_since_;
  std::string cannot_form_;  // why the last attempt found no placement
  std::string last_end_;     // why the last epoch ended
};

}  // namespace tutti::coordinator
