#include "coordinator/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "coordinator/limits.h"
#include "coordinator/planted_bugs.h"
#include "placement/placement_prediction.h"

namespace tutti::coordinator {
namespace {

placement::StepLoad LoadOfPlan(const v1::StepPlan& plan) {
  placement::StepLoad load{
      .rows = static_cast<double>(plan.total_rows()), .kv_tokens = 0, .sampled = 0};
  double attended = 0;
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    const double count = scheduled.count();
    attended += count * (scheduled.first() + (count + 1) / 2);
    load.kv_tokens += scheduled.first() + count;
    if (scheduled.sample()) ++load.sampled;
  }
  load.depth = attended / std::max(1.0, load.rows);
  return load;
}

}  // namespace

std::string Pipeline::Describe(const Worker& worker) const {
  if (worker.stage < 0) return absl::StrCat("worker ", worker.id());
  const bool ranked = stages_[worker.stage].ranks() > 1;
  return absl::StrCat("worker ", worker.id(), " (stage ", worker.stage,
                      ranked ? absl::StrCat(" rank ", worker.rank) : "",
                      options_->num_pipelines <= 1 && id_.value() == 0
                          ? ""
                          : absl::StrCat(" of pipeline ", id_.value()),
                      ")");
}

std::string Pipeline::WhyNot() const {
  const std::string before = last_end_.empty() ? "" : absl::StrCat("; before: ", last_end_);
  if (state_ == State::kServing) return "";
  if (state_ == State::kWaiting) {
    if (back_off_until_.has_value()) return absl::StrCat("pausing after a failure", before);
    return absl::StrCat(cannot_form_.empty() ? "waiting for workers" : cannot_form_, before);
  }
  std::vector<std::string> loading;
  for (const Shard& shard : shards_) {
    if (!shard.ready) loading.push_back(shard.placement.device);
  }
  return absl::StrCat("loading on ", absl::StrJoin(loading, ", "), before);
}

void Pipeline::Form(const Formation& formation, Instant now, std::vector<Action>* actions) {
  CHECK(WantsWorkers(now));
  back_off_until_.reset();
  cannot_form_.clear();
  epoch_ = ++*last_epoch_;
  state_ = State::kLoading;
  formed_at_ = now;
  num_blocks_ = formation.placement.num_blocks;
  stages_.clear();
  shards_.clear();
  for (const placement::StagePlacement& placement : formation.placement.stages) {
    const auto stage = static_cast<int32_t>(stages_.size());
    stages_.push_back({.placement = placement, .first_shard = shards_.size()});
    for (const placement::RankPlacement& rank : placement.ranks) {
      Worker* const worker = formation.workers[shards_.size()];
      worker->pipeline = static_cast<int32_t>(id_.value());
      worker->stage = worker->held_stage = stage;
      worker->rank = worker->held_rank =
          static_cast<int32_t>(shards_.size() - stages_.back().first_shard);
      worker->waiting_for.clear();
      worker->holds_shard = true;
      worker->shard_epoch = epoch_;
      worker->loading = true;
      shards_.push_back({.link = worker->link,
                         .stage = stage,
                         .rank = worker->rank,
                         .placement = rank,
                         .work_since = now,
                         .last_done_at = now});
    }
  }
  CHECK(shards_.size() == formation.workers.size());
  pace_ = PaceWatch(shards_.size());
  for (const Shard& shard : shards_) {
    actions->push_back(SendToWorker{shard.link, AssignFrame(shard, formation)});
  }
  planned_.clear();
  planned_first_step_ = 1;
  rows_planned_ = 0;
  last_step_ = 0;
  busy_seconds_ = 0;
}

v1::Frame Pipeline::AssignFrame(const Shard& shard, const Formation& formation) const {
  const Stage& stage = stages_[shard.stage];
  v1::Frame frame;
  frame.set_epoch(epoch_.value());
  v1::AssignShard* const assign = frame.mutable_assign_shard();
  assign->set_pipeline(id_.value());
  assign->set_stage(shard.stage);
  assign->set_num_stages(num_stages());
  assign->set_rank(shard.rank);
  assign->set_num_ranks(static_cast<int32_t>(stage.ranks()));
  assign->set_first_layer(stage.placement.first_layer);
  assign->set_num_layers(stage.placement.num_layers);
  assign->set_has_embedding(stage.placement.has_embedding);
  assign->set_has_head(stage.placement.has_head);
  assign->set_block_size(formation.placement.block_size);
  assign->set_num_blocks(formation.placement.num_blocks);
  assign->set_max_batch_tokens(options_->max_batch_tokens);
  assign->set_max_sequences(options_->max_sequences);
  assign->set_max_model_len(MaxModelLen(*options_));
  assign->set_whole_experts(options_->model.whole_experts);
  const auto name = [&](const Stage& of, size_t rank) {
    return formation.workers[of.first_shard + rank]->id();
  };
  for (size_t rank = 0; stage.ranks() > 1 && rank < stage.ranks(); ++rank) {
    assign->add_rank_worker_ids(name(stage, rank));
  }
  const auto own = static_cast<size_t>(shard.rank);
  if (shard.stage > 0) {
    const Stage& before = stages_[shard.stage - 1];
    assign->set_previous_worker_id(name(before, own % before.ranks()));
  }
  if (shard.stage + 1 < num_stages()) {
    const Stage& next = stages_[shard.stage + 1];
    for (size_t rank = own; rank < next.ranks(); rank += stage.ranks()) {
      assign->add_next_worker_ids(name(next, rank));
    }
  }
  return frame;
}

void Pipeline::End(const std::string& why, Instant now) {
  CHECK(state_ != State::kWaiting);
  const bool lasted = state_ == State::kServing && now - serving_since_ >= kStableServing;
  failures_ = lasted ? 0 : failures_ + 1;
  back_off_until_ = now + FormBackOff(failures_);
  last_end_ = why;
  epoch_ = ++*last_epoch_;
  state_ = State::kWaiting;
  num_blocks_ = 0;
  for (const Shard& shard : shards_) {
    Worker* const worker = membership_->Find(shard.link);
    if (worker != nullptr) worker->pipeline = worker->stage = -1;
  }
  stages_.clear();
  shards_.clear();
}

const Pipeline::Shard& Pipeline::ShardOf(const Worker& worker) const {
  return shards_[stages_[worker.stage].first_shard + static_cast<size_t>(worker.rank)];
}

Pipeline::Shard& Pipeline::ShardOf(const Worker& worker) {
  return const_cast<Shard&>(std::as_const(*this).ShardOf(worker));
}

uint64_t Pipeline::DoneStep(int32_t stage) const {
  const Stage& of = stages_[stage];
  uint64_t done = shards_[of.first_shard].done_step;
  for (size_t rank = 1; rank < of.ranks(); ++rank) {
    done = std::min(done, shards_[of.first_shard + rank].done_step);
  }
  return done;
}

absl::Status Pipeline::OnShardProgress(const Worker& worker, const v1::ShardProgress& progress) {
  if (progress.loaded_bytes() < 0 || progress.loaded_bytes() > progress.total_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("shard_progress says ", progress.loaded_bytes(),
                                                   " of ", progress.total_bytes(), " bytes"));
  }
  ShardOf(worker).progress = progress;
  return absl::OkStatus();
}

absl::Status Pipeline::OnShardReady(const Worker& worker, const v1::ShardReady& ready,
                                    Instant now) {
  Shard& shard = ShardOf(worker);
  if (shard.ready) return absl::FailedPreconditionError("shard_ready came twice");
  shard.ready = true;
  shard.actual = ready;
  if (std::all_of(shards_.begin(), shards_.end(), [](const Shard& s) { return s.ready; })) {
    state_ = State::kServing;
    serving_since_ = now;
  }
  return absl::OkStatus();
}

absl::Status Pipeline::OnStepDone(Worker* worker, const v1::StepDone& done, Instant now) {
  Shard& shard = ShardOf(*worker);
  if (done.step() != shard.done_step + 1 || done.step() > last_step_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", done.step(), " done, after ", shard.done_step, " of ", last_step_, " planned"));
  }
  if (done.compute_us() < 0 || done.wait_us() < 0 || done.exchange_wait_us() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", done.step(), " took ", done.compute_us(), " us, waited ", done.wait_us(),
        " us and ", done.exchange_wait_us(), " us for other ranks: no time is below 0"));
  }
  shard.done_step = done.step();
  shard.work_since = now;
  CountTimes(&shard, done, now);
  shard.out = done.activation_out();
  shard.exchange_out = done.exchange_out();
  worker->last_progress = now;
  // The ranks of the next stage can go on from now, if this is the step they wait for.
  const uint64_t possible = DoneStep(worker->stage);
  if (worker->stage + 1 < num_stages() && possible == done.step()) {
    const Stage& next = stages_[worker->stage + 1];
    for (size_t rank = 0; rank < next.ranks(); ++rank) {
      Shard& fed = shards_[next.first_shard + rank];
      if (fed.done_step + 1 == done.step()) fed.work_since = now;
    }
  }
  uint64_t done_by_all = done.step();
  for (const Shard& other : shards_) done_by_all = std::min(done_by_all, other.done_step);
  for (; planned_first_step_ < done_by_all; ++planned_first_step_) planned_.pop_front();
  if (worker->stage + 1 == num_stages() && !busy()) busy_seconds_ += Seconds(now - busy_since_);
  return absl::OkStatus();
}

void Pipeline::CountTimes(Shard* shard, const v1::StepDone& done, Instant now) {
  const Planned& planned = planned_[done.step() - planned_first_step_];
  const double computing = static_cast<double>(done.compute_us()) * 1e-6;
  const double exchanging = static_cast<double>(done.exchange_wait_us()) * 1e-6;
  shard->rows = planned.rows_up_to;
  shard->compute_seconds += computing;
  shard->exchange_wait_seconds += exchanging;
  // Several steps may wait at once, so their times overlap: of the time since the step before, all
  // that was not computing can have been waiting.
  const double since = Seconds(now - shard->last_done_at);
  shard->wait_seconds +=
      std::clamp(static_cast<double>(done.wait_us()) * 1e-6, 0.0, std::max(0.0, since - computing));
  shard->last_done_at = now;
  const double predicted =
      placement::PredictStageSeconds(stages_[shard->stage].placement, planned.load, {});
  shard->predicted_seconds += predicted;
  shard->recent_steps = shard->recent_steps * kStepAverageKept + 1;
  shard->recent_seconds = shard->recent_seconds * kStepAverageKept + computing;
  shard->recent_predicted = shard->recent_predicted * kStepAverageKept + predicted;
  pace_.OnStep(static_cast<size_t>(shard - shards_.data()), computing - exchanging, now);
}

void Pipeline::SendPlan(v1::StepPlan plan, Instant now, std::vector<Action>* actions) {
  CHECK(state_ == State::kServing);
  CHECK(plan.step() == last_step_ + 1);
  if (!busy()) busy_since_ = now;
  last_step_ = plan.step();
  rows_planned_ += plan.total_rows();
  planned_.push_back({.rows_up_to = rows_planned_, .load = LoadOfPlan(plan)});
  for (size_t rank = 0; rank < stages_.front().ranks(); ++rank) {
    if (shards_[rank].done_step + 1 == last_step_) shards_[rank].work_since = now;
  }
  v1::Frame frame;
  frame.set_epoch(epoch_.value());
  *frame.mutable_step_plan() = std::move(plan);
  for (const Shard& shard : shards_) {
    const bool last = &shard == &shards_.back();
    SendToWorker send{shard.link, last ? std::move(frame) : frame};
    if (shard.rank > 0 && IsPlanted(options_->planted_bugs, PlantedBug::kForgetOnFirstRank)) {
      send.frame.mutable_step_plan()->clear_finished();
    }
    actions->push_back(std::move(send));
  }
}

bool Pipeline::HasWork(const Shard& shard) const {
  const uint64_t possible = shard.stage == 0 ? last_step_ : DoneStep(shard.stage - 1);
  return possible > shard.done_step;
}

// The rank that the worker's step waits for. Whoever waits for another rank is not the one that is
// stuck. When ranks wait for one another, the way between them is cut, and they end the wait
// themselves.
const Worker* Pipeline::AwaitedRank(const Worker& worker) const {
  if (worker.waiting_for.empty() || worker.waiting_for == worker.id()) return nullptr;
  const Stage& stage = stages_[worker.stage];
  for (size_t rank = 0; rank < stage.ranks(); ++rank) {
    if (stage.placement.ranks[rank].device != worker.waiting_for) continue;
    return membership_->Find(shards_[stage.first_shard + rank].link);
  }
  return nullptr;
}

// The rank of the stage before that has still to do the worker's next step, and feeds it.
const Worker* Pipeline::AwaitedFeeder(const Worker& worker) const {
  const Shard& shard = ShardOf(worker);
  if (worker.stage == 0 || shard.done_step == last_step_) return nullptr;
  const Stage& before = stages_[worker.stage - 1];
  const size_t rank = static_cast<size_t>(worker.rank) % before.ranks();
  const Shard& feeder = shards_[before.first_shard + rank];
  return feeder.done_step > shard.done_step ? nullptr : membership_->Find(feeder.link);
}

const Worker& Pipeline::Culprit(const Worker& gave_up) const {
  const Worker* at = &gave_up;
  const Worker* next = AwaitedRank(*at);
  std::vector<const Worker*> seen;
  while (next != nullptr && std::find(seen.begin(), seen.end(), next) == seen.end()) {
    seen.push_back(at = next);
    next = AwaitedRank(*at);
    if (next == nullptr) next = AwaitedFeeder(*at);
  }
  return *at;
}

std::optional<Pipeline::Stuck> Pipeline::FindStuck(Instant now) const {
  if (state_ != State::kServing) return std::nullopt;
  for (const Shard& shard : shards_) {
    if (!HasWork(shard)) continue;
    const Worker* const worker = membership_->Find(shard.link);
    if (AwaitedRank(*worker) != nullptr) continue;
    const Instant since = std::max(shard.work_since, worker->last_progress);
    if (now - since < StuckAfter(options_->lease)) continue;
    std::string given =
        shard.stage == 0
            ? "it was planned"
            : absl::StrCat(stages_[shard.stage - 1].placement.ranks.front().device, " had done it");
    return Stuck{shard.link, absl::StrCat("no progress on step ", shard.done_step + 1, " for ",
                                          static_cast<int64_t>(Milliseconds(now - since)),
                                          " ms after ", given)};
  }
  return std::nullopt;
}

bool Pipeline::LoadTimedOut(Instant now) const {
  return state_ == State::kLoading && now - formed_at_ >= options_->load_timeout;
}

Instant Pipeline::next_deadline() const {
  if (state_ == State::kLoading) return formed_at_ + options_->load_timeout;
  if (state_ == State::kWaiting) return back_off_until_.value_or(kInstantNever);
  Instant deadline = kInstantNever;
  for (const Shard& shard : shards_) {
    if (!HasWork(shard)) continue;
    const Worker* const worker = membership_->Find(shard.link);
    if (AwaitedRank(*worker) != nullptr) continue;
    deadline = std::min(
        deadline, std::max(shard.work_since, worker->last_progress) + StuckAfter(options_->lease));
  }
  return deadline;
}

}  // namespace tutti::coordinator
