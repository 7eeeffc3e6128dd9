// The inside of the engine: what its parts are and which of them hears of what.
//
// engine.cc has the whole and what an operator sees; engine_requests.cc requests, which pipeline
// they go to, and steps; engine_workers.cc what workers say and how they are lost;
// engine_pipelines.cc how pipelines form, and end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/admission_queue.h"
#include "coordinator/device_numbers.h"
#include "coordinator/engine.h"
#include "coordinator/forming.h"
#include "coordinator/kv/kv_directory.h"
#include "coordinator/layout_choice.h"
#include "coordinator/membership.h"
#include "coordinator/pipeline.h"
#include "coordinator/request_table.h"
#include "coordinator/router.h"
#include "coordinator/scheduler.h"
#include "coordinator/step_rate.h"

namespace tutti::coordinator {

class Engine::Impl {
 public:
  explicit Impl(EngineOptions options);

  void On(RequestArrived event);
  void On(const RequestCancelled& event);
  void On(const WorkerJoined& event);
  void On(const WorkerLost& event);
  void On(WorkerFrame event);
  void On(const DrainRequested&) { draining_ = true; }

  void Advance();
  Instant next_deadline() const;
  void FillStatus(Instant now, v1::GetStatusResponse* status);
  void LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                    v1::LookupPrefixResponse* response) const;

  // Valid during Handle and Advance.
  Instant now_;
  std::vector<Action>* actions_ = nullptr;

 private:
  // A pipeline and what decides its steps.
  struct Unit {
    Unit(PipelineId id, const EngineOptions* options, Membership* membership, Epoch* last_epoch,
         KvDirectory* directory);
    bool serving() const { return pipeline.state() == Pipeline::State::kServing; }

    Pipeline pipeline;
    Scheduler scheduler;
    StepRate rate;
    bool may_plan = false;  // something happened since its last plan; it is in to_plan_
  };

  // Requests.
  absl::Status CheckRequest(const Request& request) const;
  int64_t LargestPool() const;
  absl::Status CheckDeadline(const Request& request, std::span<const TokenId> tokens) const;
  std::vector<int64_t> CachedTokens(const Request& request, std::span<const TokenId> tokens) const;
  void LowerDefaultLength(Request* request) const;
  Hash128 DomainOfLength(Hash128 domain, size_t prompt_tokens) const;
  void EndRequest(Sequence* sequence, FinishCause cause, absl::Status status);
  void Release(Sequence* sequence);
  void ExpireDeadlines();

  // Which pipeline they go to.
  void BindWaiting();
  Unit* UnitOfGroup(const Sequence& sequence) const;
  bool SomebodyHasRoom(const Sequence& sequence);
  Unit* Route(const Sequence& sequence);
  void Bind(Sequence* sequence, Unit* unit);

  // Workers.
  Unit* UnitOf(const Worker& worker) const;
  bool PassesEpochGate(const Worker& worker, const v1::Frame& frame);
  absl::Status TakeFrame(Worker* worker, v1::Frame* frame);
  absl::Status TakeBeat(Worker* worker, const v1::Beat& beat);
  absl::Status TakeShardReady(Worker* worker, const v1::ShardReady& ready);
  absl::Status TakeFailure(const Worker& worker, const v1::Failure& failure);
  absl::Status TakeStepResult(Worker* worker, v1::StepResult* result);
  void LoseWorker(LinkKey link, const absl::Status& reason, bool close);
  Instant LeaseEnd(const Worker& worker) const;
  void WatchFor(Duration time) { watch_at_ = std::min(watch_at_, now_ + time); }
  void Watch();
  void ExpireLeases();

  // Pipelines.
  void AddUnit();
  void FormPipelines();
  bool Settled();
  absl::Status SettleLayout(const std::vector<Offer>& offers);
  void RefuseForming(const absl::Status& why);
  bool FormWaiting(std::vector<Offer>* offers);
  void FormMore(std::vector<Offer>* offers);
  void Form(Pipeline* pipeline, const Formation& formation, std::vector<Offer>* offers);
  void CannotForm(Pipeline* pipeline, const absl::Status& why);
  void ReleaseIdle();
  void EndPipeline(Unit* unit, const std::string& why);
  void SettleAfterLoss(const std::vector<Sequence*>& lost, const std::string& why);
  bool AnyServing() const;
  std::string WhyNot() const;
  void TellServing();

  // Steps.
  void EndLost(const Unit& unit, const v1::StepResult& result);
  void CommitToken(const Scheduler::Sampled& sampled);
  void MayPlan(Unit* unit);
  void PlanSteps();

  const EngineOptions options_;
  Membership membership_;
  DeviceNumbers numbers_;
  LayoutChoice layout_{&options_};
  Instant members_changed_at_{};
  std::string refusal_;  // the last that was told as a Notice
  Epoch last_epoch_;     // counted over all pipelines
  KvDirectory directory_;
  std::vector<std::unique_ptr<Unit>> units_;
  RequestTable requests_;
  AdmissionQueue queue_;
  bool draining_ = false;
  uint64_t stale_frames_ = 0;
  std::optional<Pipeline::State> told_state_;  // what the last ServingChanged was about

  // What Advance has to look at: all of it is proportional to what happened.
  std::vector<Unit*> to_plan_;
  bool may_bind_ = false;  // room became free, or somebody came
  bool may_form_ = true;   // workers or pipelines changed
  bool state_changed_ = true;
  Instant form_at_ = kInstantNever;   // the next pause after a failure ends
  Instant watch_at_ = kInstantNever;  // no lease, load or step runs out before

  std::vector<PipelineLoad> loads_;          // of all pipelines, as one request sees them
  std::vector<Scheduler::Sampled> sampled_;  // kept for its memory
};

}  // namespace tutti::coordinator
