#include "coordinator/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"
#include "placement/placement_prediction.h"

namespace tutti::coordinator {
namespace {

// The id of the probe's sequence, which workers forget with the step. No sequence of the
// scheduler's has it, and none is there beside it.
constexpr uint64_t kProbeSequence = UINT64_MAX;

// One row: the first token of any vocabulary, with a greedy sample.
v1::StepPlan ProbePlan(BlockId block) {
  v1::StepPlan plan;
  plan.set_probe(true);
  plan.set_total_rows(1);
  v1::NewSequence* const added = plan.add_new_sequences();
  added->set_sequence(kProbeSequence);
  added->add_tokens(0);
  added->set_prompt_tokens(1);
  added->mutable_sampling()->set_top_p(1);
  added->mutable_sampling()->set_repetition_penalty(1);
  v1::ScheduledSequence* const scheduled = plan.add_scheduled();
  scheduled->set_sequence(kProbeSequence);
  scheduled->set_count(1);
  scheduled->add_new_blocks(block.value());
  scheduled->set_sample(true);
  scheduled->set_expected_tokens(1);
  scheduled->set_expected_blocks(1);
  return plan;
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

void Pipeline::Form(const Formation& formation, std::optional<BlockId> free_block, Instant now,
                    std::vector<Action>* actions) {
  CHECK(state_ == State::kWaiting);
  cannot_form_.clear();
  epoch_ = ++*last_epoch_;
  state_ = State::kLoading;
  num_blocks_ = formation.placement.num_blocks;
  probe_block_ = free_block.value_or(BlockId(0));
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
      worker->standby.reset();
      worker->holds_shard = true;
      worker->shard_epoch = epoch_;
      shards_.push_back({.link = worker->link,
                         .stage = stage,
                         .rank = worker->rank,
                         .placement = rank,
                         .moved_at = now});
    }
  }
  CHECK(shards_.size() == formation.workers.size());
  std::vector<size_t> ranks;
  for (const Stage& stage : stages_) ranks.push_back(stage.ranks());
  links_ = PipelineLinks(ranks, WorkerIds());
  ledger_ = StepLedger(formation.placement.stages, now);
  for (Shard& shard : shards_) {
    shard.assigned = AssignmentOf(shard, formation);
    shard.assigned.set_kept_blocks(KeptBlocks(shard));
    if (free_block.has_value()) shard.assigned.set_kv_epoch(KvEpochOf(shard));
    SendToWorker send{shard.link, {}};
    send.frame.set_epoch(epoch_.value());
    *send.frame.mutable_assign_shard() = shard.assigned;
    actions->push_back(std::move(send));
    if (!shard.assigned.has_head() || options_->vocabulary == nullptr) continue;
    SendToWorker tell{shard.link, {}};
    tell.frame.set_epoch(epoch_.value());
    *tell.frame.mutable_vocabulary() = *options_->vocabulary;
    actions->push_back(std::move(tell));
  }
}

void Pipeline::End(const std::string& why) {
  CHECK(state_ != State::kWaiting);
  if (state_ == State::kServing) {
    last_shards_.clear();
    for (Shard& shard : shards_) {
      last_shards_.push_back({shard.link, std::move(shard.assigned), shard.kv_epoch});
    }
  }
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
  links_ = PipelineLinks();
  ledger_ = StepLedger();
}

size_t Pipeline::IndexOf(const Worker& worker) const {
  return stages_[worker.stage].first_shard + static_cast<size_t>(worker.rank);
}

absl::Status Pipeline::OnShardReady(const Worker& worker, const v1::ShardReady& ready, Instant now,
                                    std::vector<Action>* actions) {
  Shard& shard = shards_[IndexOf(worker)];
  if (shard.ready) return absl::FailedPreconditionError("shard_ready came twice");
  TUTTI_RETURN_IF_ERROR(check_->CompareMemory(worker, shard.placement, shard.assigned, ready));
  TUTTI_RETURN_IF_ERROR(TakeKv(&shard, ready));
  shard.ready = true;
  shard.actual = ready;
  shard.actual.clear_kept_rows();
  if (check_->ready()) TUTTI_RETURN_IF_ERROR(Compare(&shard));
  LinkIfAllAgree(now, actions);
  return absl::OkStatus();
}

void Pipeline::SendProbe(std::vector<Action>* actions) const {
  v1::Frame frame;
  frame.set_epoch(epoch_.value());
  *frame.mutable_step_plan() = ProbePlan(probe_block_);
  for (const Shard& shard : shards_) actions->push_back(SendToWorker{shard.link, frame});
}

absl::Status Pipeline::OnLinkState(const Worker& worker, const v1::LinkState& state) {
  return links_.OnState(IndexOf(worker), state);
}

absl::Status Pipeline::OnProbeDone(Worker* worker, uint64_t step, Instant now) {
  Shard& shard = shards_[IndexOf(*worker)];
  if (step != 0 || shard.linked) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step,
                                                      " done, where the probe, step 0, is ",
                                                      shard.linked ? "done already" : "under way"));
  }
  shard.linked = true;
  worker->last_progress = now;
  if (std::all_of(shards_.begin(), shards_.end(), [](const Shard& s) { return s.linked; })) {
    state_ = State::kServing;
    serving_since_ = now;
  }
  return absl::OkStatus();
}

absl::Status Pipeline::Compare(Shard* shard) const {
  TUTTI_RETURN_IF_ERROR(
      check_->Compare(stages_[shard->stage].placement, shard->rank, shard->actual));
  shard->compared = true;
  shard->actual.clear_read();  // megabytes, of no more use
  return absl::OkStatus();
}

std::optional<Pipeline::Refused> Pipeline::CompareShards(Instant now,
                                                         std::vector<Action>* actions) {
  if (state_ != State::kLoading || !check_->ready()) return std::nullopt;
  for (Shard& shard : shards_) {
    if (!shard.ready || shard.compared) continue;
    absl::Status status = Compare(&shard);
    if (!status.ok()) return Refused{shard.link, std::move(status)};
  }
  LinkIfAllAgree(now, actions);
  return std::nullopt;
}

void Pipeline::LinkIfAllAgree(Instant now, std::vector<Action>* actions) {
  if (!std::all_of(shards_.begin(), shards_.end(), [](const Shard& s) { return s.compared; })) {
    return;
  }
  state_ = State::kLinking;
  linking_since_ = now;
  SendProbe(actions);
}

bool Pipeline::all_ready() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const Shard& s) { return s.ready; });
}

absl::Status Pipeline::OnStepDone(Worker* worker, const v1::StepDone& done, Instant now) {
  TUTTI_RETURN_IF_ERROR(ledger_.OnDone(IndexOf(*worker), done, now));
  worker->last_progress = now;
  return absl::OkStatus();
}

void Pipeline::SendPlan(v1::StepPlan plan, Instant now, std::vector<Action>* actions) {
  CHECK(state_ == State::kServing);
  ledger_.OnSent(plan, now);
  v1::Frame frame;
  frame.set_epoch(epoch_.value());
  *frame.mutable_step_plan() = std::move(plan);
  for (const Shard& shard : shards_) {
    const bool last = &shard == &shards_.back();
    SendToWorker send{shard.link, last ? std::move(frame) : frame};
    // Only the first rank of a stage is told of sequences that left.
    if (shard.rank > 0 && TUTTI_FAIL_POINT("coordinator.forget_on_first_rank")) {
      send.frame.mutable_step_plan()->clear_finished();
    }
    actions->push_back(std::move(send));
  }
}

// The rank that the worker's step waits for. A worker that waits for another rank is not the stuck
// one. When ranks wait for one another, the way between them is cut, and they end the wait
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
  const uint64_t done = ledger_.done_step(IndexOf(worker));
  if (worker.stage == 0 || done == ledger_.last_step()) return nullptr;
  const Stage& before = stages_[worker.stage - 1];
  const size_t feeder = before.first_shard + static_cast<size_t>(worker.rank) % before.ranks();
  return ledger_.done_step(feeder) > done ? nullptr : membership_->Find(shards_[feeder].link);
}

std::optional<Instant> Pipeline::IdleSince(size_t shard) const {
  if (!ledger_.HasWork(shard)) return std::nullopt;
  const Worker* const worker = membership_->Find(shards_[shard].link);
  // The position of its executor is told by the worker's beats (Fleet::HandleBeat).
  if (worker->at_work || AwaitedRank(*worker) != nullptr) return std::nullopt;
  return std::max(ledger_.work_since(shard), worker->last_progress);
}

std::optional<Pipeline::Stuck> Pipeline::FindStuck(Instant now) const {
  if (state_ != State::kServing) return std::nullopt;
  const Duration stuck_after = StuckAfter(options_->lease, options_->beat_interval);
  for (size_t i = 0; i < shards_.size(); ++i) {
    const std::optional<Instant> since = IdleSince(i);
    if (!since.has_value() || now - *since < stuck_after) continue;
    const Shard& shard = shards_[i];
    std::string given =
        shard.stage == 0
            ? "it was planned"
            : absl::StrCat(stages_[shard.stage - 1].placement.ranks.front().device, " had done it");
    return Stuck{shard.link, absl::StrCat("no progress on step ", ledger_.done_step(i) + 1, " for ",
                                          static_cast<int64_t>(Milliseconds(now - *since)),
                                          " ms after ", given)};
  }
  return std::nullopt;
}

Pipeline::FailedLink Pipeline::Failed(const PipelineLinks::Link& link) const {
  return {.from = links_.NameOf(link.planned.from),
          .to = links_.NameOf(link.planned.to),
          .why = absl::StrCat(links_.Describe(link), " failed: ",
                              link.error.empty() ? "nothing comes through it" : link.error)};
}

std::optional<Pipeline::FailedLink> Pipeline::FailedLinkOf(const Worker& worker) const {
  const PipelineLinks::Link* const link = links_.FindFailed(IndexOf(worker));
  if (link == nullptr) return std::nullopt;
  return Failed(*link);
}

std::optional<Pipeline::FailedLink> Pipeline::FindSilentLink(const Worker& gave_up) const {
  std::vector<const Worker*> chain = {&gave_up};
  const PipelineLinks::Link* link = nullptr;
  while (true) {
    const Worker* next = AwaitedRank(*chain.back());
    const bool rank = next != nullptr;
    if (!rank) next = AwaitedFeeder(*chain.back());
    if (next == nullptr) break;
    link = rank ? links_.FindBetween(IndexOf(*next), IndexOf(*chain.back())) : nullptr;
    if (std::find(chain.begin(), chain.end(), next) != chain.end()) break;
    chain.push_back(next);
  }
  if (link == nullptr) return std::nullopt;
  return Failed(*link);
}

// While some worker gets on, as devices do that find each other, the others wait for it.
Instant Pipeline::LinkingEnd() const {
  Instant progress = linking_since_;
  for (const Shard& shard : shards_) {
    progress = std::max(progress, membership_->Find(shard.link)->last_progress);
  }
  return std::min(progress + kLinkingPatience, linking_since_ + kLinkingMax);
}

// First what workers have said, then the first place where the row has not come through.
std::optional<Pipeline::Unlinked> Pipeline::FindUnlinked(Instant now) const {
  if (state_ != State::kLinking || now < LinkingEnd()) return std::nullopt;
  const PipelineLinks::Link* link = links_.FindFailed();
  if (link == nullptr) link = links_.FindMissing();
  for (size_t i = 0; link == nullptr && i < shards_.size(); ++i) {
    if (shards_[i].linked) continue;
    const Worker& worker = *membership_->Find(shards_[i].link);
    const Worker* const awaited = AwaitedRank(worker);
    link = awaited != nullptr ? links_.FindBetween(i, IndexOf(*awaited)) : links_.FindFeeding(i);
    if (link != nullptr) break;
    return Unlinked{
        .link = {},
        .worker = Stuck{shards_[i].link,
                        absl::StrCat("it has not done the first row within ",
                                     static_cast<int64_t>(Seconds(now - linking_since_)), " s")}};
  }
  CHECK(link != nullptr) << "all have done the probe, and the pipeline does not serve";
  return Unlinked{.link = Failed(*link), .worker = {}};
}

std::vector<std::string> Pipeline::FindLateLoaders(Instant now) const {
  std::vector<std::string> late;
  if (state_ != State::kLoading) return late;
  // Workers that wait for the coordinator's own digests are not late.
  for (const Shard& shard : shards_) {
    if (!shard.ready && now - shard.moved_at >= options_->load_timeout) {
      late.push_back(shard.placement.device);
    }
  }
  return late;
}

void Pipeline::Forgive(Duration stall, Instant now) {
  for (Shard& shard : shards_) shard.moved_at = std::min(now, shard.moved_at + stall);
  linking_since_ = std::min(now, linking_since_ + stall);
  ledger_.Forgive(stall, now);
}

Instant Pipeline::next_deadline() const {
  if (state_ == State::kLoading) {
    Instant deadline = kInstantNever;
    for (const Shard& shard : shards_) {
      if (!shard.ready) deadline = std::min(deadline, shard.moved_at + options_->load_timeout);
    }
    return deadline;
  }
  if (state_ == State::kLinking) return LinkingEnd();
  if (state_ == State::kWaiting) return kInstantNever;
  Instant deadline = kInstantNever;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const std::optional<Instant> since = IdleSince(i);
    if (!since.has_value()) continue;
    deadline = std::min(deadline, *since + StuckAfter(options_->lease, options_->beat_interval));
  }
  return deadline;
}

}  // namespace tutti::coordinator
