// The coordinator's brain: decides what runs where. Pure: no thread, socket, clock or random source
// inside. The same events at the same times always produce the same actions, which is what the
// simulator relies on.
//
// Its state has three owners:
//
//   fleet_      the workers that have joined, and the pipelines that form of them   (fleet.h)
//   admission_  the requests: queue, binding, recovery, end                         (admission.h)
//   replicas_   each pipeline with its scheduler: the steps under way               (replica.h)
//
// and of these pipelines
//
//   spares_       what idle workers load ahead                                      (spares.h)
//   retiring_     the pipelines that take nothing new                               (retiring.h)
//   slow_places_  the places of slow workers, which move                            (slow_places.h)
//
// The engine hands every event to the owner it concerns, keeps the gate that frames of old epochs
// do not pass, commits the results of steps, and ends the pipelines whose workers are lost.
//
// Its functions are in four files, because it hands on events of three kinds, and answers: to steps
// (engine_steps.cc), to pipelines between loading and serving (engine_pipelines.cc), to operators
// (engine_status.cc), and the others (engine.cc).
//
// Thread: the engine thread only (service/engine_loop.h owns it).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/sip_hash.h"
#include "base/status.h"
#include "coordinator/engine_options.h"
#include "coordinator/events.h"
#include "coordinator/fleet/fleet.h"
#include "coordinator/fleet/incarnation.h"
#include "coordinator/fleet/shard_check.h"
#include "coordinator/kv/kv_directory.h"
#include "coordinator/pipeline/replica.h"
#include "coordinator/pipeline/retiring.h"
#include "coordinator/pipeline/slow_places.h"
#include "coordinator/pipeline/spares.h"
#include "coordinator/requests/admission.h"
#include "coordinator/steps/finished_answers.h"
#include "coordinator/steps_due.h"
#include "proto/peer_messages.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class Engine {
 public:
  explicit Engine(EngineOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Applies one event and appends the actions that it makes necessary. Never plans a step: a burst
  // of events must not cause a burst of steps.
  void Handle(Event event, Instant now, std::vector<Action>* actions);
  // Acts on everything handled so far: expires leases and deadlines, forms pipelines, binds
  // requests to them and fills them with steps. Once per drained batch of events; its work is
  // proportional to what happened since the last call.
  void Advance(Instant now, std::vector<Action>* actions);
  // The latest time Advance must be called even if no event arrives.
  Instant next_deadline() const;
  // Work that could go on although Advance has returned: a request that waits, or a step. Empty:
  // nothing. Walks over everything, for tests.
  std::string MissedWork();
  // Tokens that owners have been charged so far; for tests.
  int64_t charged_tokens() const { return admission_.charged_tokens(); }
  // A request that waits for a place which others should give up (Scheduler::Outranked).
  struct OutrankedRequest {
    RequestId id;
    PipelineId pipeline;  // that it waits for
    uint64_t steps = 0;   // that this pipeline has been sent
  };
  // Walks over everything, for tests.
  std::vector<OutrankedRequest> Outranked();

  // An operator lets a worker go, or takes it back (`undo`): what becomes of it, for people. For
  // Advance to act on. NOT_FOUND: no worker of that name is linked.
  absl::StatusOr<std::string> DrainWorker(const std::string& worker_id, bool undo, Instant now,
                                          std::vector<Action>* actions);

  // The operator's view.
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;
  // The pipelines that hold a part of a prompt, how much of it, and on which workers.
  void LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                    v1::LookupPrefixResponse* response) const;

 private:
  void On(RequestArrived event);
  void On(const RequestCancelled& event);
  void On(const WorkerJoined& event);
  void On(const WorkerLost& event);
  void On(WorkerFrame event);
  void On(const DrainRequested&);
  void On(const EndRequested&) { admission_.EndAll(actions_); }
  void On(const Stalled& event);
  void On(const CheckpointDigested& event);
  void On(const Led& event);
  void On(StandsBy event);

  // Frames of workers. After an error the worker is lost, with the error as the reason.
  bool PassesEpochGate(const Worker& worker, const v1::Frame& frame);
  absl::Status HandleFrame(Worker* worker, v1::Frame* frame);
  absl::Status HandleBeat(Worker* worker, const v1::Beat& beat);
  absl::Status HandleShardReady(Worker* worker, const v1::ShardReady& ready);
  absl::Status HandleStepDone(Worker* worker, const v1::StepDone& done);
  absl::Status HandleStepResult(Worker* worker, v1::StepResult* result);
  // Called after what may have been the last shard that was missing.
  void WatchLinking(const Replica& replica);
  absl::Status HandleProbeDone(Worker* worker, uint64_t step);
  absl::Status HandleFailure(const Worker& worker, const v1::Failure& failure);

  // Steps.
  void CommitRebuilds(Replica* replica, uint64_t last_done);
  void EndFaulty(const Replica& replica, const v1::StepResult& result);
  absl::Status WhyNoToken(const Sequence& sequence, const v1::StepResult& result) const;
  bool CommitToken(const Scheduler::Sampled& sampled, const v1::StepResult& result);
  void PlanSteps();

  // Pipelines and their workers.
  Replica* AddReplica();
  Replica* ReplicaOf(const Worker& worker) const;
  void FormPipelines();
  // Whether pipelines and streams hold the numerics class; and what follows from who has joined.
  Fleet::ClassUse UseOfClass() const;
  void UpdateClass();
  // Ends pipelines of too few workers that can form whole again.
  void GrowReduced();
  // Sequences on it go on elsewhere, or when it has formed again. `lost`: the worker by whose loss
  // it ends, and how it was lost; null: none.
  void EndPipeline(Replica* replica, const std::string& why, const Worker* lost = nullptr,
                   LossCause cause = LossCause::kNobody);
  void SettleWaiting();
  void EndLink(Replica* replica, const Pipeline::FailedLink& link);
  void LoseWorker(LinkKey link, const absl::Status& reason, bool close, LossCause cause);
  void Watch();
  void WatchPipeline(Replica* replica);
  void MoveSlow(Replica* replica);

  // Workers that were told to stop, and their pipelines (engine_pipelines.cc).
  void HandleLeaving(Worker* worker);
  void LetGo(LinkKey link);
  void LetIdleGo();
  void EndRetired();
  // Some load or step may run out after `time`.
  void WatchFor(Duration time) { watch_at_ = std::min(watch_at_, now_ + time); }

  // Whether any pipeline serves, of those that do not wait for their last streams with no
  // successor.
  bool AnyServing() const;
  std::string WhyNotServing() const;
  std::string WhyNotWhole() const;
  bool AnyLeaving() const;
  bool IsAwaited() const;
  absl::Status CheckServing() const;
  void ReportServing();

  const EngineOptions options_;
  Fleet fleet_;
  ShardCheck shard_check_;
  KvDirectory directory_;
  StepsDue steps_due_;
  FinishedAnswers answers_;
  Admission admission_;
  Incarnation incarnation_;
  std::string stands_by_;  // why, and who leads; empty: this one does
  // Counted over all pipelines, from Incarnation::BeforeFirstEpoch on.
  Epoch last_epoch_;
  std::vector<std::unique_ptr<Replica>> replicas_;  // by pipeline id
  Spares spares_;
  Retiring retiring_;
  SlowPlaces slow_places_;
  // What no worker can load, by the last that tried; empty: nothing, or something has served since.
  std::string cannot_load_;
  uint64_t stale_frames_ = 0;
  bool draining_ = false;

  // The state of some pipeline has changed, since ReportServing; and the state that the last
  // ServingChanged was about.
  bool state_changed_ = true;
  std::optional<Pipeline::State> told_state_;
  // Nothing serves, and what has ended is awaited until then; never: something serves, or nothing
  // has yet, or not for too long.
  Instant awaited_until_ = kInstantNever;
  // No load and no step of a pipeline runs out before.
  Instant watch_at_ = kInstantNever;
  std::vector<Scheduler::Sampled> sampled_;  // kept for its memory

  // Valid during Handle and Advance.
  Instant now_;
  std::vector<Action>* actions_ = nullptr;
};

}  // namespace tutti::coordinator
