#include "coordinator/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "coordinator/limits.h"

namespace tutti {

std::string Pipeline::Describe(const Worker& worker) const {
  if (worker.stage < 0) return absl::StrCat("worker ", worker.id());
  return absl::StrCat("worker ", worker.id(), " (stage ", worker.stage,
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
  for (const Stage& stage : stages_) {
    if (!stage.ready) loading.push_back(stage.plan.ranks.front().device);
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
  for (size_t i = 0; i < formation.workers.size(); ++i) {
    Worker* const worker = formation.workers[i];
    const auto stage = static_cast<int32_t>(i);
    stages_.push_back({.link = worker->link,
                       .plan = formation.placement.stages[i],
                       .work_since = now,
                       .last_done_at = now});
    worker->pipeline = static_cast<int32_t>(id_.value());
    worker->stage = worker->held_stage = stage;
    worker->holds_shard = true;
    worker->shard_epoch = epoch_;
    worker->loading = true;
    actions->push_back(SendToWorker{worker->link, AssignFrame(stage, formation)});
  }
  rows_up_to_.clear();
  rows_first_step_ = 1;
  last_step_ = 0;
}

v1::Frame Pipeline::AssignFrame(int32_t stage, const Formation& formation) const {
  const StagePlan& plan = formation.placement.stages[stage];
  const auto num_stages = static_cast<int32_t>(formation.workers.size());
  v1::Frame frame;
  frame.set_epoch(epoch_.value());
  v1::AssignShard* const shard = frame.mutable_assign_shard();
  shard->set_pipeline(id_.value());
  shard->set_stage(stage);
  shard->set_num_stages(num_stages);
  shard->set_num_ranks(1);
  shard->set_first_layer(plan.first_layer);
  shard->set_num_layers(plan.num_layers);
  shard->set_has_embedding(plan.has_embedding);
  shard->set_has_head(plan.has_head);
  shard->set_block_size(formation.placement.block_size);
  shard->set_num_blocks(formation.placement.num_blocks);
  shard->set_max_batch_tokens(options_->max_batch_tokens);
  shard->set_max_sequences(options_->max_sequences);
  shard->set_max_model_len(MaxModelLen(*options_));
  if (stage + 1 < num_stages) shard->add_next_worker_ids(formation.workers[stage + 1]->id());
  if (stage > 0) shard->set_previous_worker_id(formation.workers[stage - 1]->id());
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
  for (const Stage& stage : stages_) {
    Worker* const worker = membership_->Find(stage.link);
    if (worker != nullptr) worker->pipeline = worker->stage = -1;
  }
  stages_.clear();
}

absl::Status Pipeline::OnShardProgress(const Worker& worker, const v1::ShardProgress& progress) {
  if (progress.loaded_bytes() < 0 || progress.loaded_bytes() > progress.total_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("shard_progress says ", progress.loaded_bytes(),
                                                   " of ", progress.total_bytes(), " bytes"));
  }
  stages_[worker.stage].progress = progress;
  return absl::OkStatus();
}

absl::Status Pipeline::OnShardReady(const Worker& worker, const v1::ShardReady& ready,
                                    Instant now) {
  Stage& stage = stages_[worker.stage];
  if (stage.ready) return absl::FailedPreconditionError("shard_ready came twice");
  stage.ready = true;
  stage.actual = ready;
  if (std::all_of(stages_.begin(), stages_.end(), [](const Stage& s) { return s.ready; })) {
    state_ = State::kServing;
    serving_since_ = now;
  }
  return absl::OkStatus();
}

absl::Status Pipeline::OnStepDone(Worker* worker, const v1::StepDone& done, Instant now) {
  Stage& stage = stages_[worker->stage];
  if (done.step() != stage.done_step + 1 || done.step() > last_step_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", done.step(), " done, after ", stage.done_step, " of ", last_step_, " planned"));
  }
  stage.done_step = done.step();
  stage.rows = rows_up_to_[done.step() - rows_first_step_];
  stage.work_since = now;
  stage.compute_seconds += static_cast<double>(done.compute_us()) * 1e-6;
  // Several steps may wait at once, so their times overlap: of the time since the step before, all
  // that was not computing can have been waiting.
  const double since = Seconds(now - stage.last_done_at);
  const double computing = static_cast<double>(done.compute_us()) * 1e-6;
  stage.wait_seconds +=
      std::clamp(static_cast<double>(done.wait_us()) * 1e-6, 0.0, std::max(0.0, since - computing));
  stage.last_done_at = now;
  stage.out = done.activation_out();
  worker->last_progress = now;
  // The next stage can go on from now, if this is the step it waits for.
  if (!IsLast(*worker)) {
    Stage& next = stages_[worker->stage + 1];
    if (next.done_step + 1 == done.step()) next.work_since = now;
  }
  uint64_t done_by_all = done.step();
  for (const Stage& other : stages_) done_by_all = std::min(done_by_all, other.done_step);
  for (; rows_first_step_ < done_by_all; ++rows_first_step_) rows_up_to_.pop_front();
  return absl::OkStatus();
}

void Pipeline::SendPlan(v1::StepPlan plan, Instant now, std::vector<Action>* actions) {
  CHECK(state_ == State::kServing);
  CHECK(plan.step() == last_step_ + 1);
  last_step_ = plan.step();
  rows_up_to_.push_back((rows_up_to_.empty() ? 0 : rows_up_to_.back()) + plan.total_rows());
  if (stages_.front().done_step + 1 == last_step_) stages_.front().work_since = now;
  v1::Frame frame;
  frame.set_epoch(epoch_.value());
  *frame.mutable_step_plan() = std::move(plan);
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    actions->push_back(SendToWorker{stages_[i].link, frame});
  }
  actions->push_back(SendToWorker{stages_.back().link, std::move(frame)});
}

bool Pipeline::HasWork(size_t stage) const {
  const uint64_t possible = stage == 0 ? last_step_ : stages_[stage - 1].done_step;
  return possible > stages_[stage].done_step;
}

std::optional<Pipeline::Stuck> Pipeline::FindStuck(Instant now) const {
  if (state_ != State::kServing) return std::nullopt;
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (!HasWork(i)) continue;
    const Worker* const worker = membership_->Find(stages_[i].link);
    const Instant since = std::max(stages_[i].work_since, worker->last_progress);
    if (now - since < StuckAfter(options_->lease)) continue;
    std::string given =
        i == 0 ? "it was planned"
               : absl::StrCat(stages_[i - 1].plan.ranks.front().device, " had done it");
    return Stuck{
        stages_[i].link,
        absl::StrCat("no progress on step ", stages_[i].done_step + 1, " for ",
                     static_cast<int64_t>(Milliseconds(now - since)), " ms after ", given)};
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
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (!HasWork(i)) continue;
    const Worker* const worker = membership_->Find(stages_[i].link);
    deadline = std::min(deadline, std::max(stages_[i].work_since, worker->last_progress) +
                                      StuckAfter(options_->lease));
  }
  return deadline;
}

}  // namespace tutti
