// The inside of the engine: what its parts are and which of them hears of what.
//
// engine.cc has requests, steps and the whole; engine_workers.cc what workers say and how they are
// lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/engine.h"
#include "coordinator/membership.h"
#include "coordinator/pipeline.h"
#include "coordinator/request_table.h"
#include "coordinator/scheduler.h"

namespace tutti {

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
  Instant next_deadline();
  void FillStatus(Instant now, v1::GetStatusResponse* status);

  // Valid during Handle and Advance.
  Instant now_;
  std::vector<Action>* actions_ = nullptr;

 private:
  absl::Status CheckRequest(const Request& request) const;
  void EndRequest(Sequence* sequence, FinishCause cause, absl::Status status);

  // Workers.
  bool PassesEpochGate(const Worker& worker, const v1::Frame& frame);
  absl::Status TakeFrame(Worker* worker, v1::Frame* frame);
  absl::Status TakeBeat(Worker* worker, const v1::Beat& beat);
  absl::Status TakeShardReady(Worker* worker, const v1::ShardReady& ready);
  absl::Status TakeStepResult(Worker* worker, v1::StepResult* result);
  void LoseWorker(LinkKey link, const absl::Status& reason, bool close);
  void EndPipeline(const std::string& why);
  void SettleAfterLoss(const std::string& why);
  Instant LeaseEnd(const Worker& worker) const;
  void ExpireLeases();
  void ExpireDeadlines();
  void TellServing();

  // Steps.
  void CommitToken(Scheduler::Sampled* sampled);
  void PlanSteps();

  const EngineOptions options_;
  Membership membership_;
  Pipeline pipeline_;
  Scheduler scheduler_;
  RequestTable requests_;
  bool draining_ = false;
  uint64_t stale_frames_ = 0;
  std::optional<Pipeline::State> told_state_;  // what the last ServingChanged was about
  std::vector<Scheduler::Sampled> sampled_;    // kept for its memory
};

}  // namespace tutti
