#include "coordinator/pipeline/step_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/limits.h"
#include "placement/placement_prediction.h"

namespace tutti::coordinator {
namespace {

placement::StepLoad LoadOf(const v1::StepPlan& plan) {
  LoadSum load;
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    load.Add(scheduled.first(), scheduled.count(),
             scheduled.sample() ? 1 + scheduled.guesses_size() : 0);
  }
  return load.load();
}

}  // namespace

StepLedger::StepLedger(std::vector<placement::StagePlacement> stages, Instant now)
    : times_(stages), began_(now) {
  CHECK(!stages.empty());
  for (placement::StagePlacement& placement : stages) {
    const auto stage = static_cast<int32_t>(stages_.size());
    const size_t first = shards_.size();
    CHECK(!placement.ranks.empty()) << "stage " << stage;
    for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
      shards_.push_back({.stage = stage, .work_since = now, .last_done_at = now});
    }
    stages_.push_back(
        {.placement = std::move(placement), .first_shard = first, .end_shard = shards_.size()});
  }
  pace_ = PaceWatch(shards_.size());
}

uint64_t StepLedger::DoneStep(int32_t stage) const {
  const Stage& of = stages_[stage];
  uint64_t done = shards_[of.first_shard].done_step;
  for (size_t shard = of.first_shard + 1; shard < of.end_shard; ++shard) {
    done = std::min(done, shards_[shard].done_step);
  }
  return done;
}

uint64_t StepLedger::done_by_all() const {
  uint64_t done = last_step_;
  for (const Shard& shard : shards_) done = std::min(done, shard.done_step);
  return done;
}

void StepLedger::OnSent(const v1::StepPlan& plan, Instant now) {
  CHECK(plan.step() == last_step_ + 1);
  const bool alone = !busy();
  if (alone) busy_since_ = now;
  last_step_ = plan.step();
  rows_sent_ += plan.total_rows();
  sent_.push_back({.rows_up_to = rows_sent_, .load = LoadOf(plan), .rebuild = std::nullopt});
  SentStep& sent = sent_.back();
  sent.alone = alone;
  if (plan.has_rebuild()) sent.rebuild = plan.rebuild();
  for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
    if (!scheduled.has_drafts()) continue;
    sent.drafts = true;
    sent.drafts_most = std::max(sent.drafts_most, scheduled.drafts());
  }
  for (size_t shard = 0; shard < stages_.front().end_shard; ++shard) {
    if (shards_[shard].done_step + 1 == last_step_) shards_[shard].work_since = now;
  }
}

absl::Status StepLedger::OnDone(size_t number, const v1::StepDone& done, Instant now) {
  Shard& shard = shards_[number];
  if (done.step() != shard.done_step + 1 || done.step() > last_step_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", done.step(), " done, after ", shard.done_step, " of ", last_step_, " planned"));
  }
  if (done.compute_us() < 0 || done.wait_us() < 0 || done.exchange_wait_us() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", done.step(), " took ", done.compute_us(), " us, waited ", done.wait_us(),
        " us and ", done.exchange_wait_us(), " us for other ranks: no time is below 0"));
  }
  if (done.draft_us() < 0 || done.draft_passes() < 0) {
    return absl::InvalidArgumentError(absl::StrCat("step ", done.step(), " had ",
                                                   done.draft_passes(), " passes for drafts in ",
                                                   done.draft_us(), " us: neither is below 0"));
  }
  shard.done_step = done.step();
  shard.work_since = now;
  CountTimes(number, done, now);
  shard.out = done.activation_out();
  shard.exchange_out = done.exchange_out();
  const bool is_last = shard.stage + 1 == static_cast<int32_t>(stages_.size());
  // The ranks of the next stage can go on from now, if this is the step they wait for.
  if (!is_last && DoneStep(shard.stage) == done.step()) {
    const Stage& next = stages_[shard.stage + 1];
    for (size_t i = next.first_shard; i < next.end_shard; ++i) {
      if (shards_[i].done_step + 1 == done.step()) shards_[i].work_since = now;
    }
  }
  if (is_last && !busy()) {
    busy_seconds_ += Seconds(now - busy_since_);
    const SentStep& sent = sent_.back();
    if (sent.alone && !sent.rebuild.has_value()) {
      times_.OnWay(std::max(0.0, Seconds(now - busy_since_) - sent.computing));
    }
  }
  for (const uint64_t done_last = done_by_all(); first_sent_step_ < done_last; ++first_sent_step_) {
    sent_.pop_front();
  }
  return absl::OkStatus();
}

void StepLedger::CountTimes(size_t number, const v1::StepDone& done, Instant now) {
  Shard& shard = shards_[number];
  SentStep& sent = sent_[done.step() - first_sent_step_];
  const double computing = static_cast<double>(done.compute_us()) * 1e-6;
  const double exchanging = static_cast<double>(done.exchange_wait_us()) * 1e-6;
  shard.rows = sent.rows_up_to;
  shard.compute_seconds += computing;
  shard.exchange_wait_seconds += exchanging;
  // Several steps may wait at once, so their times overlap: of the time since the step before, all
  // that was not computing can have been waiting.
  const double since = std::max(0.0, Seconds(now - shard.last_done_at));
  const double drafting = CountDrafts(number, done, since);
  if (number == stages_[shard.stage].first_shard) sent.computing += computing + drafting;
  shard.wait_seconds += std::clamp(static_cast<double>(done.wait_us()) * 1e-6, 0.0,
                                   std::max(0.0, since - computing - drafting));
  shard.last_done_at = now;
  // Workers are compared by the steps that they all compute.
  if (sent.rebuild.has_value()) return;
  const double predicted =
      placement::PredictStageSeconds(stages_[shard.stage].placement, sent.load, {});
  shard.predicted_seconds += predicted;
  shard.recent_steps = shard.recent_steps * kStepAverageKept + 1;
  shard.recent_seconds = shard.recent_seconds * kStepAverageKept + computing;
  shard.recent_predicted = shard.recent_predicted * kStepAverageKept + predicted;
  pace_.OnStep(number, computing - exchanging, predicted, now);
  times_.OnStep(shard.stage, sent.load, computing);
}

// The time that the draft model took behind the step, which is no time of the step; 0: it had
// nothing to do, whatever the worker says.
double StepLedger::CountDrafts(size_t number, const v1::StepDone& done, double since) {
  const SentStep& sent = sent_[done.step() - first_sent_step_];
  if (!sent.drafts || number != stages_.back().first_shard) return 0;
  const double drafting = std::min(since, static_cast<double>(done.draft_us()) * 1e-6);
  shards_[number].draft_seconds += drafting;
  // Fewer passes read what the model had not read yet, many tokens at once.
  if (sent.drafts_most > 0 && done.draft_passes() >= sent.drafts_most) {
    times_.OnDrafts(done.draft_passes(), drafting);
  }
  return drafting;
}

void StepLedger::Forgive(Duration stall, Instant now) {
  for (Shard& shard : shards_) shard.work_since = std::min(now, shard.work_since + stall);
}

bool StepLedger::HasWork(size_t number) const {
  const Shard& shard = shards_[number];
  const uint64_t possible = shard.stage == 0 ? last_step_ : DoneStep(shard.stage - 1);
  return possible > shard.done_step;
}

double StepLedger::BusySeconds(Instant now) const {
  return busy_seconds_ + (busy() ? Seconds(now - busy_since_) : 0);
}

void StepLedger::FillStatus(size_t number, Instant now, v1::StageStatus* status) const {
  const Shard& shard = shards_[number];
  FillTimes(shard, now, status);
  status->set_slowdown(pace_.slowdown(number));
  status->set_activation_bytes_out(shard.out.bytes());
  status->set_activation_frames_out(shard.out.frames());
  status->set_exchange_bytes_out(shard.exchange_out.bytes());
  status->set_rows(shard.rows);
  if (shard.rows > 0) {
    status->set_activation_bytes_per_token(static_cast<double>(shard.out.bytes()) /
                                           static_cast<double>(shard.rows));
  }
}

void StepLedger::FillTimes(const Shard& shard, Instant now, v1::StageStatus* status) const {
  const double seconds = Seconds(now - began_);
  if (seconds > 0) {
    status->set_compute_share(shard.compute_seconds / seconds);
    status->set_wait_share(shard.wait_seconds / seconds);
    status->set_exchange_wait_share(shard.exchange_wait_seconds / seconds);
  }
  if (const double busy = BusySeconds(now); busy > 0) {
    // The time that a rank waits for others within a step is idle time too.
    const double computing =
        shard.compute_seconds - shard.exchange_wait_seconds + shard.draft_seconds;
    status->set_bubble_share(std::clamp(1 - computing / busy, 0.0, 1.0));
  }
  if (shard.recent_steps > 0) {
    status->set_step_seconds(shard.recent_seconds / shard.recent_steps);
    status->set_predicted_step_seconds(shard.recent_predicted / shard.recent_steps);
  }
  status->set_steps_total(shard.done_step);
  status->set_compute_seconds_total(shard.compute_seconds);
  status->set_wait_seconds_total(shard.wait_seconds);
  status->set_exchange_wait_seconds_total(shard.exchange_wait_seconds);
  status->set_predicted_seconds_total(shard.predicted_seconds);
}

}  // namespace tutti::coordinator
