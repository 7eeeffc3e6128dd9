// What workers say, what of it is believed, and how they are lost.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "coordinator/engine_impl.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {

void Engine::Impl::On(const WorkerJoined& event) {
  // A worker that comes back before its old link is seen to be dead must not wait for longer than
  // the lease.
  Worker* const namesake = membership_.FindId(event.hello.worker_id());
  if (namesake != nullptr && LeaseEnd(*namesake) <= now_) {
    LoseWorker(namesake->link, absl::UnavailableError("its lease expired, and it came back"), true);
  }
  const absl::Status status = membership_.Check(event.hello);
  if (!status.ok()) {
    actions_->push_back(CloseWorker{event.link, status});
    return;
  }
  membership_.Join(event.link, event.hello, now_);
  numbers_.Join(event.hello.worker_id());
  members_changed_at_ = now_;
  may_form_ = true;
  WatchFor(options_.lease);
  v1::Frame frame;
  v1::Welcome* const welcome = frame.mutable_welcome();
  welcome->set_beat_interval_ms(static_cast<uint32_t>(Milliseconds(options_.beat_interval)));
  welcome->set_lease_ms(static_cast<uint32_t>(Milliseconds(options_.lease)));
  actions_->push_back(SendToWorker{event.link, std::move(frame)});
}

void Engine::Impl::On(const WorkerLost& event) { LoseWorker(event.link, event.reason, false); }

void Engine::Impl::On(WorkerFrame event) {
  Worker* const worker = membership_.Find(event.link);
  if (worker == nullptr) return;  // closed by us; what was under way is of no interest
  worker->last_heard = now_;
  // It may be of an epoch that ended while the worker loaded: it has loaded all the same.
  if (event.frame.has_shard_ready() && event.frame.epoch() == worker->shard_epoch.value()) {
    worker->loading = false;
    WatchFor(options_.lease);
  }
  // A beat is about the process, not about a pipeline; everything else passes the gate.
  if (!event.frame.has_beat() && !PassesEpochGate(*worker, event.frame)) return;
  const absl::Status status = TakeFrame(worker, &event.frame);
  if (!status.ok()) LoseWorker(event.link, status, true);
}

Engine::Impl::Unit* Engine::Impl::UnitOf(const Worker& worker) const {
  return worker.pipeline < 0 ? nullptr : units_[worker.pipeline].get();
}

// The one gate: what passes belongs to the worker's pipeline as it is now.
bool Engine::Impl::PassesEpochGate(const Worker& worker, const v1::Frame& frame) {
  const Unit* const unit = UnitOf(worker);
  if (unit != nullptr && frame.epoch() == unit->pipeline.epoch().value()) return true;
  ++stale_frames_;
  return unit != nullptr && (TUTTI_FAIL_POINT("coordinator.skip_epoch_check") ||
                             (worker.rank > 0 && TUTTI_FAIL_POINT("coordinator.skip_rank_epoch")));
}

absl::Status Engine::Impl::TakeFrame(Worker* worker, v1::Frame* frame) {
  if (frame->has_beat()) return TakeBeat(worker, frame->beat());
  Pipeline& pipeline = UnitOf(*worker)->pipeline;
  const bool serving = pipeline.state() == Pipeline::State::kServing;
  switch (frame->body_case()) {
    case v1::Frame::kShardProgress:
      return pipeline.OnShardProgress(*worker, frame->shard_progress());
    case v1::Frame::kShardReady:
      return TakeShardReady(worker, frame->shard_ready());
    case v1::Frame::kStepDone:
      if (!serving || pipeline.TellsResults(*worker)) break;
      WatchFor(StuckAfter(options_.lease));  // the next stage can go on
      return pipeline.OnStepDone(worker, frame->step_done(), now_);
    case v1::Frame::kStepResult:
      if (!serving || !pipeline.TellsResults(*worker)) break;
      return TakeStepResult(worker, frame->mutable_step_result());
    case v1::Frame::kFailure:
      return TakeFailure(*worker, frame->failure());
    default:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "it sent frame kind ", static_cast<int>(frame->body_case()), ", which does not belong here"));
}

absl::Status Engine::Impl::TakeBeat(Worker* worker, const v1::Beat& beat) {
  if (beat.progress() < worker->progress) {
    return absl::FailedPreconditionError(
        absl::StrCat("its progress went back from ", worker->progress, " to ", beat.progress()));
  }
  if (beat.progress() > worker->progress) worker->last_progress = now_;
  worker->progress = beat.progress();
  worker->resident_bytes = beat.resident_bytes();
  if (worker->waiting_for != beat.waiting_for()) {
    worker->waiting_for = beat.waiting_for();
    WatchFor(StuckAfter(options_.lease));
  }
  return absl::OkStatus();
}

absl::Status Engine::Impl::TakeShardReady(Worker* worker, const v1::ShardReady& ready) {
  Unit* const unit = UnitOf(*worker);
  TUTTI_RETURN_IF_ERROR(unit->pipeline.OnShardReady(*worker, ready, now_));
  if (unit->serving()) {
    unit->scheduler.BeginEpoch(unit->pipeline.num_stages(), unit->pipeline.num_blocks());
    state_changed_ = may_bind_ = true;
  }
  return absl::OkStatus();
}

// A rank that gave up waiting for another is most often not the one to blame: it is lost who is,
// and the one that gave up waits for its next shard.
absl::Status Engine::Impl::TakeFailure(const Worker& worker, const v1::Failure& failure) {
  const Worker& culprit = UnitOf(worker)->pipeline.Culprit(worker);
  if (&culprit == &worker)
    return absl::AbortedError(absl::StrCat("it failed: ", failure.message()));
  LoseWorker(culprit.link,
             absl::AbortedError(absl::StrCat(worker.id(), " failed: ", failure.message())), true);
  return absl::OkStatus();
}

// `close`: the link is still open, and the worker is told why it will not be.
void Engine::Impl::LoseWorker(LinkKey link, const absl::Status& reason, bool close) {
  Worker* const worker = membership_.Find(link);
  if (worker == nullptr) return;  // never joined, or closed by us
  Unit* const unit = UnitOf(*worker);
  const std::string name =
      unit == nullptr ? absl::StrCat("worker ", worker->id()) : unit->pipeline.Describe(*worker);
  numbers_.Leave(worker->id());
  membership_.Remove(link);
  members_changed_at_ = now_;
  may_form_ = true;
  if (close) actions_->push_back(CloseWorker{link, reason});
  if (unit != nullptr) EndPipeline(unit, absl::StrCat(name, " was lost: ", reason.message()));
}

Instant Engine::Impl::LeaseEnd(const Worker& worker) const {
  return worker.last_heard +
         (worker.loading ? std::max(options_.lease, kLoadingSilenceMax) : options_.lease);
}

// Looks at everybody, but only when somebody's time may have run out.
void Engine::Impl::Watch() {
  if (now_ < watch_at_) return;
  ExpireLeases();
  for (const auto& unit : units_) {
    Pipeline& pipeline = unit->pipeline;
    if (const std::optional<Pipeline::Stuck> stuck = pipeline.FindStuck(now_)) {
      LoseWorker(stuck->link, absl::DeadlineExceededError(stuck->why), true);
    }
    if (pipeline.LoadTimedOut(now_)) {
      EndPipeline(unit.get(),
                  absl::StrCat(pipeline.WhyNot(), " took longer than ",
                               static_cast<int64_t>(Seconds(options_.load_timeout)), " s"));
    }
  }
  watch_at_ = kInstantNever;
  for (const Worker* worker : membership_.All()) watch_at_ = std::min(watch_at_, LeaseEnd(*worker));
  for (const auto& unit : units_) {
    if (unit->pipeline.state() == Pipeline::State::kWaiting) continue;
    watch_at_ = std::min(watch_at_, unit->pipeline.next_deadline());
  }
}

void Engine::Impl::ExpireLeases() {
  for (const Worker* worker : membership_.All()) {
    if (LeaseEnd(*worker) > now_) continue;
    const auto silent = static_cast<int64_t>(Milliseconds(now_ - worker->last_heard));
    LoseWorker(worker->link,
               absl::DeadlineExceededError(
                   absl::StrCat("its lease expired, nothing was heard of it for ", silent, " ms")),
               true);
  }
}

}  // namespace tutti::coordinator
