#include "coordinator/engine.h"

#include <google/protobuf/descriptor.h>

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"
#include "model/quantise_choice.h"

namespace tutti::coordinator {
namespace {

KvDirectoryOptions DirectoryOptionsOf(const EngineOptions& options) {
  return {.key = options.prefix_key,
          .model_fingerprint = model::ServedFingerprint(options.model_fingerprint, options.model),
          .dtype = std::string(DTypeName(options.model.dtype)),
          .block_size = options.block_size};
}

// "step_done"
std::string FrameName(const v1::Frame& frame) {
  const auto* const field = v1::Frame::descriptor()->FindFieldByNumber(frame.body_case());
  return field == nullptr ? "an empty frame" : std::string(field->name());
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(std::move(options)),
      fleet_(&options_),
      shard_check_(&options_),
      directory_(DirectoryOptionsOf(options_)),
      admission_(&options_, &directory_, &steps_due_, &answers_),
      spares_(&fleet_, &replicas_, &shard_check_, &last_epoch_),
      retiring_(&fleet_, &replicas_),
      slow_places_(&options_, &fleet_) {
  // A device map says which workers make a pipeline, so there is one.
  const bool mapped = !options_.device_map.stages.empty();
  const int32_t count = mapped ? 1 : std::max(1, options_.num_pipelines);
  for (int32_t i = 0; i < count; ++i) AddReplica();
}

void Engine::Handle(Event event, Instant now, std::vector<Action>* actions) {
  now_ = now;
  actions_ = actions;
  std::visit([this](auto& e) { On(std::move(e)); }, event);
}

void Engine::Advance(Instant now, std::vector<Action>* actions) {
  now_ = now;
  actions_ = actions;
  answers_.Advance(now);
  Watch();
  admission_.ExpireDeadlines(now, actions);
  admission_.JudgeOverdue(now, actions);
  if (now >= admission_.stranded_until()) SettleWaiting();
  if (now >= awaited_until_) state_changed_ = true;
  if (fleet_.FormingIsDue(now) || state_changed_) {
    state_changed_ |= retiring_.Update(draining_, now);
  }
  EndRetired();
  for (const auto& replica : replicas_) MoveSlow(replica.get());
  UpdateClass();
  FormPipelines();
  UpdateClass();  // what has formed late is settled at once
  spares_.LoadAhead(draining_, now, actions);
  admission_.BindWaiting(now, actions);
  PlanSteps();
  // A newcomer that shares blocks takes fewer than were counted for it while it waited, and what is
  // sent back takes none: a plan may leave room for others.
  while (admission_.BindWaiting(now, actions)) PlanSteps();
  ReportServing();
}

Instant Engine::next_deadline() const {
  return std::min({admission_.next_deadline(), admission_.stranded_until(),
                   admission_.next_verdict(), awaited_until_, spares_.next_deadline(),
                   fleet_.next_deadline(), watch_at_});
}

std::string Engine::MissedWork() {
  if (admission_.CanBind()) return "a pipeline has room for the request whose turn it is";
  for (const auto& replica : replicas_) {
    if (!replica->serving() || !replica->scheduler.CanPlan()) continue;
    return absl::StrCat("pipeline ", replica->id().value(), " could be sent another step");
  }
  return "";
}

// ---- events

void Engine::On(RequestArrived event) {
  admission_.HandleRequest(std::move(event), CheckServing(), now_, actions_);
}

void Engine::On(const RequestCancelled& event) {
  admission_.HandleCancellation(event, now_, actions_);
}

void Engine::On(const WorkerJoined& event) {
  if (const std::optional<LostWorker> namesake =
          fleet_.FindExpiredNamesake(event.hello.worker_id(), now_)) {
    LoseWorker(namesake->link, namesake->reason, true, LossCause::kSilent);
  }
  // A process that has obeyed nobody has never joined: the worker was started again.
  const bool same_process = event.hello.incarnation() != 0;
  admission_.HandleJoin(event.hello.worker_id(), same_process, now_, actions_);
  absl::Status may_join = shard_check_.MayJoin(event.hello.worker_id(), now_);
  if (may_join.ok()) may_join = incarnation_.Meet(event.hello.incarnation());
  if (!may_join.ok()) {
    actions_->push_back(CloseWorker{event.link, may_join});
    return;
  }
  last_epoch_ = std::max(last_epoch_, incarnation_.BeforeFirstEpoch());
  fleet_.OpenClass(UseOfClass(), now_);
  fleet_.HandleJoin(event, incarnation_.number(), now_, actions_);
  spares_.Look();
}

void Engine::On(const WorkerLost& event) {
  LoseWorker(event.link, event.reason, false, LossCause::kClosed);
}

void Engine::On(const Stalled& event) {
  fleet_.Forgive(event.duration, now_);
  admission_.Forgive(event.duration);
  for (const auto& replica : replicas_) replica->pipeline.Forgive(event.duration, now_);
}

void Engine::On(const CheckpointDigested& event) {
  shard_check_.HandleDigests(event);
  if (!shard_check_.ready()) return;
  for (const auto& replica : replicas_) {
    if (replica->serving()) continue;
    if (const auto refused = replica->pipeline.CompareShards(now_, actions_)) {
      shard_check_.Refuse(*fleet_.Find(refused->link), refused->why, now_, actions_);
      LoseWorker(refused->link, refused->why, true, LossCause::kNobody);
    }
    WatchLinking(*replica);
  }
}

void Engine::On(WorkerFrame event) {
  Worker* const worker = fleet_.Find(event.link);
  if (worker == nullptr) return;  // closed by us; frames under way are of no interest
  fleet_.RenewLease(worker, now_);
  if (event.frame.has_leaving()) return HandleLeaving(worker);
  // A beat is about the process, not about a pipeline; everything else passes the gate.
  if (!event.frame.has_beat() && !PassesEpochGate(*worker, event.frame)) return;
  const absl::Status status = HandleFrame(worker, &event.frame);
  if (status.ok()) return;
  fleet_.faults()->OnFailure(worker->id(), now_);
  LoseWorker(event.link, status, true, LossCause::kFailed);
}

// ---- frames of workers

// The epoch gate: a frame that passes belongs to the pipeline that the worker serves now.
bool Engine::PassesEpochGate(const Worker& worker, const v1::Frame& frame) {
  const Replica* const replica = ReplicaOf(worker);
  if (worker.standby.has_value() && frame.epoch() == worker.shard_epoch.value()) return true;
  if (replica != nullptr && frame.epoch() == replica->pipeline.epoch().value()) return true;
  ++stale_frames_;
  return replica != nullptr &&
         (TUTTI_FAIL_POINT("coordinator.skip_epoch_check") ||
          (worker.rank > 0 && TUTTI_FAIL_POINT("coordinator.skip_rank_epoch")));
}

absl::Status Engine::HandleFrame(Worker* worker, v1::Frame* frame) {
  if (frame->has_beat()) return HandleBeat(worker, frame->beat());
  if (worker->standby.has_value()) return spares_.HandleFrame(worker, *frame, now_, actions_);
  Pipeline& pipeline = ReplicaOf(*worker)->pipeline;
  const bool serving = pipeline.state() == Pipeline::State::kServing;
  const bool linking = pipeline.state() == Pipeline::State::kLinking;
  switch (frame->body_case()) {
    case v1::Frame::kShardProgress:
      return pipeline.OnShardProgress(*worker, frame->shard_progress(), now_);
    case v1::Frame::kShardReady:
      return HandleShardReady(worker, frame->shard_ready());
    case v1::Frame::kLinkState:
      return pipeline.OnLinkState(*worker, frame->link_state());
    case v1::Frame::kStepDone:
      if (pipeline.TellsResults(*worker)) break;
      if (linking) return HandleProbeDone(worker, frame->step_done().step());
      if (!serving) break;
      return HandleStepDone(worker, frame->step_done());
    case v1::Frame::kStepResult:
      if (!pipeline.TellsResults(*worker)) break;
      if (linking) return HandleProbeDone(worker, frame->step_result().step());
      if (!serving) break;
      return HandleStepResult(worker, frame->mutable_step_result());
    case v1::Frame::kFailure:
      return HandleFailure(*worker, frame->failure());
    default:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "it sent ", FrameName(*frame), ", which is not expected of it while its pipeline ",
      serving   ? "serves"
      : linking ? "links"
                : "loads"));
}

absl::Status Engine::HandleBeat(Worker* worker, const v1::Beat& beat) {
  // The pipeline may now wait for another worker, which may have been stuck for long, or for one
  // whose executor has come back from work with nothing done.
  if (worker->waiting_for != beat.waiting_for() || (worker->at_work && beat.allowed_us() == 0)) {
    WatchFor(StuckAfter(options_.lease, options_.beat_interval));
  }
  return fleet_.HandleBeat(worker, beat, now_);
}

absl::Status Engine::HandleShardReady(Worker* worker, const v1::ShardReady& ready) {
  Replica* const replica = ReplicaOf(*worker);
  const absl::Status status = replica->pipeline.OnShardReady(*worker, ready, now_, actions_);
  if (absl::IsDataLoss(status) || absl::IsInvalidArgument(status)) {
    shard_check_.Refuse(*worker, status, now_, actions_);
  }
  TUTTI_RETURN_IF_ERROR(status);
  WatchLinking(*replica);
  return absl::OkStatus();
}

// Neither end is lost for a link that failed. Nor is a rank that gave up waiting for another, or
// that other: a dead one's links close, and a stuck one is found earlier, so it is the way between.
absl::Status Engine::HandleFailure(const Worker& worker, const v1::Failure& failure) {
  Replica* const replica = ReplicaOf(worker);
  if (const auto link = replica->pipeline.FailedLinkOf(worker)) {
    EndLink(replica, *link);
    return absl::OkStatus();
  }
  // Where something serves the same checkpoint it is this worker that cannot.
  const bool loads = replica->pipeline.state() == Pipeline::State::kLoading;
  if (failure.lasting() && loads && !AnyServing()) {
    cannot_load_ = absl::StrCat(replica->pipeline.Describe(worker), ": ", failure.message());
  }
  if (!replica->pipeline.WaitsForRank(worker)) {
    return absl::AbortedError(absl::StrCat("it failed: ", failure.message()));
  }
  if (const auto link = replica->pipeline.FindSilentLink(worker)) {
    EndLink(replica, *link);
  } else {
    EndPipeline(replica,
                absl::StrCat(replica->pipeline.Describe(worker), " gave up: ", failure.message()));
  }
  return absl::OkStatus();
}

// ---- pipelines and their workers

Replica* Engine::AddReplica() {
  const PipelineId id(static_cast<uint32_t>(replicas_.size()));
  replicas_.push_back(std::make_unique<Replica>(id, &options_, fleet_.membership(), &last_epoch_,
                                                &shard_check_, &directory_, &answers_));
  Replica* const added = replicas_.back().get();
  admission_.AddTarget({.scheduler = &added->scheduler,
                        .rate = &added->rate,
                        .accepting = retiring_.Add(),
                        .numerics = &added->numerics,
                        .exact = &added->exact});
  return added;
}

// Null: the worker is idle.
Replica* Engine::ReplicaOf(const Worker& worker) const {
  return worker.pipeline < 0 ? nullptr : replicas_[worker.pipeline].get();
}

void Engine::FormPipelines() {
  if (!fleet_.FormingIsDue(now_)) return;
  LetIdleGo();
  GrowReduced();
  std::vector<WaitingPipeline> waiting;
  Fleet::FormedPipelines formed;
  for (const auto& replica : replicas_) {
    if (replica->pipeline.state() == Pipeline::State::kWaiting) {
      waiting.push_back({replica->id(), replica->ended});
    } else {
      formed.any = true;
      formed.any_reduced |= replica->reduced;
    }
  }
  FormingResult result = fleet_.Form(waiting, formed, now_, actions_);
  for (FormingOutcome& outcome : result.outcomes) {
    Replica* const replica =
        outcome.pipeline.has_value() ? replicas_[outcome.pipeline->value()].get() : AddReplica();
    if (outcome.formation.ok()) {
      const int32_t blocks = outcome.formation->placement.num_blocks;
      replica->pipeline.Form(*outcome.formation, replica->scheduler.FreeOfLastEpoch(blocks), now_,
                             actions_);
      replica->reduced = outcome.formation->reduced;
      admission_.recoveries()->OnMilestone(replica->id(), RecoveryLog::Milestone::kFormed, now_);
      state_changed_ = true;
      WatchFor(options_.load_timeout);
    } else {
      replica->pipeline.CannotForm(std::string(outcome.formation.status().message()));
    }
    if (outcome.notice.has_value()) actions_->push_back(*std::move(outcome.notice));
  }
}

void Engine::EndPipeline(Replica* replica, const std::string& why, const Worker* lost,
                         LossCause cause) {
  const bool serving = replica->serving();
  if (replica->pipeline.HasServedLong(now_)) {
    for (const std::string& id : replica->pipeline.WorkerIds()) fleet_.faults()->OnServedLong(id);
  }
  replica->pipeline.End(why);
  replica->rate.Forget();
  retiring_.Cancel(*replica);
  fleet_.HandlePipelineEnd();
  state_changed_ = true;
  if (serving) {
    replica->ended = now_;
    Admission::Loss loss{.pipeline = replica->id(), .why = why};
    if (lost != nullptr) {
      fleet_.KeepClass();
      // One that was told to stop went for that.
      if (!lost->goes()) loss.cause = cause;
      loss.worker = lost->id();
      loss.unheard = now_ - lost->last_heard;
    }
    admission_.RecoverSequences(loss, now_, actions_);
    if (!AnyServing()) awaited_until_ = now_ + options_.recovery_timeout;
  }
  SettleWaiting();
}

// Called after a pipeline began or ceased to serve, or when some request has waited for too long.
void Engine::SettleWaiting() {
  const bool may_come = std::any_of(replicas_.begin(), replicas_.end(),
                                    [](const auto& replica) { return !replica->serving(); });
  admission_.SettleWaiting(may_come, WhyNotWhole(), now_, actions_);
}

// `close`: the link is still open, and the worker is told why it will not be.
void Engine::LoseWorker(LinkKey link, const absl::Status& reason, bool close, LossCause cause) {
  const Worker* const worker = fleet_.Find(link);
  if (worker == nullptr) return;  // never joined, or closed by us
  Replica* const replica = ReplicaOf(*worker);
  const std::string name = replica == nullptr ? absl::StrCat("worker ", worker->id())
                                              : replica->pipeline.Describe(*worker);
  if (replica != nullptr && !replica->serving()) fleet_.faults()->OnLostEarly(worker->id(), now_);
  const Worker lost = *worker;
  fleet_.Remove(link, now_);
  if (close) actions_->push_back(CloseWorker{link, reason});
  if (replica != nullptr) {
    EndPipeline(replica, absl::StrCat(name, " was lost: ", reason.message()), &lost, cause);
  }
}

}  // namespace tutti::coordinator
