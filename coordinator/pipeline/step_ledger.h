// The account of the steps of one epoch of a pipeline: which steps its workers were sent, how far
// each of them has come, and where their time went, beside the time that was predicted.
//
// A step passes through the stages in order, and all ranks of a stage do it: a rank has work when
// its next step was sent and all ranks of the stage before have done it. Ranks are numbered here as
// the pipeline's shards are: stage by stage, within a stage rank by rank.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "coordinator/pipeline/pace_watch.h"
#include "coordinator/steps/step_times.h"
#include "placement/placement.h"
#include "proto/peer_messages.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class StepLedger {
 public:
  // No epoch: no shards and no steps.
  StepLedger() = default;
  // The epoch begins now.  REQUIRES: there is a stage, and each has a rank
  StepLedger(std::vector<placement::StagePlacement> stages, Instant now);

  // A step is sent to every shard.  REQUIRES: plan.step() == last_step() + 1
  void OnSent(const v1::StepPlan& plan, Instant now);
  // A shard says that it has done a step. Nothing changes on an error.
  // FAILED_PRECONDITION: not the shard's next step, or one that was not sent.
  // INVALID_ARGUMENT: a time or number below 0.
  absl::Status OnDone(size_t shard, const v1::StepDone& done, Instant now);

  // The last step sent; 0: none.
  uint64_t last_step() const { return last_step_; }
  // The last step that the shard has done; 0: none.
  uint64_t done_step(size_t shard) const { return shards_[shard].done_step; }
  // The last step that all shards have done.
  uint64_t done_by_all() const;
  // Steps that have passed through all stages.
  uint64_t finished_steps() const {
    return stages_.empty() ? 0 : DoneStep(static_cast<int32_t>(stages_.size()) - 1);
  }

  bool HasWork(size_t shard) const;
  // So much of the time up to now does not count as time with work.
  void Forgive(Duration stall, Instant now);
  // When its next step became possible.  REQUIRES: HasWork(shard)
  Instant work_since(size_t shard) const { return shards_[shard].work_since; }

  // Seconds of the epoch that the draft model took.
  double draft_seconds() const {
    return stages_.empty() ? 0 : shards_[stages_.back().first_shard].draft_seconds;
  }
  // Seconds of the epoch with a step under way; 0 without an epoch.
  double BusySeconds(Instant now) const;
  // The pace of the shards.
  const PaceWatch& pace() const { return pace_; }

  // The times of the stages.
  const StepTimes& times() const { return times_; }

  // Rows, times and traffic of one shard.
  void FillStatus(size_t shard, Instant now, v1::StageStatus* status) const;

 private:
  struct Shard {
    int32_t stage = 0;
    uint64_t done_step = 0;
    int64_t rows = 0;    // of all steps it has done
    Instant work_since;  // when its next step, or its last one, became possible
    Instant last_done_at;
    // The seconds of all steps it has done.
    double compute_seconds = 0;
    double wait_seconds = 0;
    double exchange_wait_seconds = 0;  // of compute_seconds, for other ranks
    double draft_seconds = 0;          // of the draft model, besides
    double predicted_seconds = 0;      // 0: its speed is not known
    // Sums of the last steps, in which each counts less than the next (kStepAverageKept).
    double recent_steps = 0;
    double recent_seconds = 0;
    double recent_predicted = 0;
    // Counters as it last said.
    v1::LinkCounters out;
    v1::LinkCounters exchange_out;
  };
  struct Stage {
    placement::StagePlacement placement;
    size_t first_shard = 0;  // of its ranks, in order
    size_t end_shard = 0;
  };
  // The work of one step.
  struct SentStep {
    int64_t rows_up_to = 0;  // of all steps up to this one
    placement::StepLoad load;
    std::optional<v1::Rebuild> rebuild;
    // The draft model goes on behind it, by so many tokens at most.
    bool drafts = false;
    int32_t drafts_most = 0;
    bool alone = false;    // nothing else was under way when it was sent
    double computing = 0;  // seconds of its stages, and of the draft model
  };

  // The last step that all ranks of a stage have done.
  uint64_t DoneStep(int32_t stage) const;
  bool busy() const { return finished_steps() < last_step_; }
  void CountTimes(size_t number, const v1::StepDone& done, Instant now);
  double CountDrafts(size_t number, const v1::StepDone& done, double since);
  void FillTimes(const Shard& shard, Instant now, v1::StageStatus* status) const;

  std::vector<Stage> stages_;
  std::vector<Shard> shards_;
  PaceWatch pace_{0};
  StepTimes times_;
  Instant began_;
  uint64_t last_step_ = 0;
  int64_t rows_sent_ = 0;
  std::deque<SentStep> sent_;     // the steps that some shard has still to do
  uint64_t first_sent_step_ = 1;  // the step sent_.front() belongs to
  double busy_seconds_ = 0;       // up to the last time that no step was under way
  Instant busy_since_;            // if one is
};

}  // namespace tutti::coordinator
