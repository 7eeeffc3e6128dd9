#include "coordinator/engine.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/limits.h"
#include "coordinator/membership.h"
#include "coordinator/pipeline.h"
#include "coordinator/planted_bugs.h"
#include "coordinator/request_table.h"
#include "coordinator/scheduler.h"

namespace tutti {
namespace {

MembershipOptions MembershipOptionsOf(const EngineOptions& options) {
  return {.cluster_id = options.cluster_id,
          .build = options.build,
          .model_fingerprint = options.model_fingerprint,
          .numerics_class = options.numerics_class,
          .mix_numerics = options.mix_numerics,
          .memory_bytes_min = SmallestStageBytes(options.model, PlacementOptionsOf(options))};
}

SchedulerOptions SchedulerOptionsOf(const EngineOptions& options) {
  return {.block_size = options.block_size,
          .max_batch_tokens = options.max_batch_tokens,
          .chunk_tokens = options.chunk_tokens,
          .max_sequences = options.max_sequences,
          .planted_bugs = options.planted_bugs};
}

}  // namespace

class Engine::Impl {
 public:
  explicit Impl(EngineOptions options)
      : options_(std::move(options)),
        membership_(MembershipOptionsOf(options_)),
        pipeline_(&options_, &membership_),
        scheduler_(SchedulerOptionsOf(options_)) {}

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

// ---- requests

void Engine::Impl::On(RequestArrived event) {
  const absl::Status status = CheckRequest(event.request);
  if (!status.ok()) return requests_.Refuse(event.request, status, actions_);
  scheduler_.Enqueue(requests_.Add(std::move(event.request), now_));
}

absl::Status Engine::Impl::CheckRequest(const Request& request) const {
  if (draining_) return absl::UnavailableError("the service is shutting down");
  const int64_t tokens = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  if (request.prompt.empty() || request.max_tokens < 1 || tokens > MaxModelLen(options_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt of ", request.prompt.size(), " tokens and max_tokens of ",
                     request.max_tokens, " do not fit the context of ", MaxModelLen(options_)));
  }
  if (pipeline_.state() != Pipeline::State::kServing) {
    return absl::UnavailableError(absl::StrCat("not serving: ", pipeline_.WhyNot()));
  }
  TUTTI_RETURN_IF_ERROR(scheduler_.CheckRoom(request));
  if (scheduler_.waiting() >= options_.max_waiting) {
    return absl::ResourceExhaustedError(absl::StrCat(options_.max_waiting,
                                                     " requests are waiting already; retry after ",
                                                     kRetryAfterSeconds, " s"));
  }
  return absl::OkStatus();
}

void Engine::Impl::EndRequest(Sequence* sequence, FinishCause cause, absl::Status status) {
  scheduler_.Remove(sequence);
  requests_.Finish(sequence, cause, std::move(status), actions_);
}

void Engine::Impl::On(const RequestCancelled& event) {
  Sequence* const sequence = requests_.Find(event.request);
  if (sequence == nullptr) return;  // ended meanwhile
  if (event.cause == CancelCause::kStopString) {
    return EndRequest(sequence, FinishCause::kStopString, absl::OkStatus());
  }
  EndRequest(sequence, FinishCause::kError, absl::CancelledError("the client left"));
}

void Engine::Impl::ExpireDeadlines() {
  for (Sequence* sequence : requests_.Expired(now_)) {
    EndRequest(sequence, FinishCause::kError,
               absl::DeadlineExceededError(absl::StrCat("deadline passed after ",
                                                        sequence->output_tokens(), " of ",
                                                        sequence->request.max_tokens, " tokens")));
  }
}

// ---- workers

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
  }
  // A beat is about the process, not about a pipeline; everything else passes the gate.
  if (!event.frame.has_beat() && !PassesEpochGate(*worker, event.frame)) return;
  const absl::Status status = TakeFrame(worker, &event.frame);
  if (!status.ok()) LoseWorker(event.link, status, true);
}

// The one gate: what passes belongs to the pipeline as it is now.
bool Engine::Impl::PassesEpochGate(const Worker& worker, const v1::Frame& frame) {
  const bool current = worker.stage >= 0 && frame.epoch() == pipeline_.epoch().value();
  if (current) return true;
  ++stale_frames_;
  return worker.stage >= 0 && IsPlanted(options_.planted_bugs, PlantedBug::kSkipEpochCheck);
}

absl::Status Engine::Impl::TakeFrame(Worker* worker, v1::Frame* frame) {
  const bool serving = pipeline_.state() == Pipeline::State::kServing;
  switch (frame->body_case()) {
    case v1::Frame::kBeat:
      return TakeBeat(worker, frame->beat());
    case v1::Frame::kShardProgress:
      return pipeline_.OnShardProgress(*worker, frame->shard_progress());
    case v1::Frame::kShardReady:
      return TakeShardReady(worker, frame->shard_ready());
    case v1::Frame::kStepDone:
      if (!serving || pipeline_.IsLast(*worker)) break;
      return pipeline_.OnStepDone(worker, frame->step_done(), now_);
    case v1::Frame::kStepResult:
      if (!serving || !pipeline_.IsLast(*worker)) break;
      return TakeStepResult(worker, frame->mutable_step_result());
    case v1::Frame::kFailure:
      return absl::AbortedError(absl::StrCat("it failed: ", frame->failure().message()));
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
  return absl::OkStatus();
}

absl::Status Engine::Impl::TakeShardReady(Worker* worker, const v1::ShardReady& ready) {
  TUTTI_RETURN_IF_ERROR(pipeline_.OnShardReady(*worker, ready, now_));
  if (pipeline_.state() == Pipeline::State::kServing) {
    scheduler_.BeginEpoch(pipeline_.num_stages(), pipeline_.num_blocks());
  }
  return absl::OkStatus();
}

// `close`: the link is still open, and the worker is told why it will not be.
void Engine::Impl::LoseWorker(LinkKey link, const absl::Status& reason, bool close) {
  Worker* const worker = membership_.Find(link);
  if (worker == nullptr) return;  // never joined, or closed by us
  const std::string why =
      absl::StrCat(pipeline_.Describe(*worker), " was lost: ", reason.message());
  const bool served = worker->stage >= 0;
  membership_.Remove(link);
  if (close) actions_->push_back(CloseWorker{link, reason});
  if (served) EndPipeline(why);
}

void Engine::Impl::EndPipeline(const std::string& why) {
  const bool serving = pipeline_.state() == Pipeline::State::kServing;
  pipeline_.End(why, now_);
  if (!serving) return;
  scheduler_.EndEpoch();
  SettleAfterLoss(why);
}

// Decides what becomes of the sequences of a pipeline that is gone: they are all waiting now, with
// nothing computed and all their tokens, ready to go on in the next epoch. They end here, saying
// what happened.
void Engine::Impl::SettleAfterLoss(const std::string& why) {
  for (Sequence* sequence : requests_.All()) {
    EndRequest(sequence, FinishCause::kError, absl::UnavailableError(why));
  }
}

Instant Engine::Impl::LeaseEnd(const Worker& worker) const {
  return worker.last_heard +
         (worker.loading ? std::max(options_.lease, kLoadingSilenceMax) : options_.lease);
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
  if (const std::optional<Pipeline::Stuck> stuck = pipeline_.FindStuck(now_)) {
    LoseWorker(stuck->link, absl::DeadlineExceededError(stuck->why), true);
  }
  if (pipeline_.LoadTimedOut(now_)) {
    EndPipeline(absl::StrCat(pipeline_.WhyNot(), " took longer than ",
                             static_cast<int64_t>(Seconds(options_.load_timeout)), " s"));
  }
}

// ---- steps

absl::Status Engine::Impl::TakeStepResult(Worker* worker, v1::StepResult* result) {
  TUTTI_RETURN_IF_ERROR(scheduler_.steps().Check(*result, options_.model.vocab_size));
  TUTTI_RETURN_IF_ERROR(pipeline_.OnStepDone(worker, result->done(), now_));
  sampled_.clear();
  scheduler_.Commit(result, &sampled_);
  for (Scheduler::Sampled& sampled : sampled_) CommitToken(&sampled);
  return absl::OkStatus();
}

void Engine::Impl::CommitToken(Scheduler::Sampled* sampled) {
  Sequence* const sequence = sampled->sequence;
  if (sampled->poisoned) {
    return EndRequest(
        sequence, FinishCause::kError,
        absl::InternalError(absl::StrCat("the model gave no number for token ",
                                         sequence->output_tokens(), " of the output")));
  }
  const TokenId token = sampled->token.token();
  DeliverTokens deliver{.request = sequence->request.id, .index = sequence->output_tokens() - 1};
  deliver.tokens.push_back(std::move(sampled->token));
  actions_->push_back(std::move(deliver));
  requests_.CountGenerated(1);
  const std::vector<TokenId>& stop = sequence->request.stop_token_ids;
  if (std::binary_search(stop.begin(), stop.end(), token)) {
    EndRequest(sequence, FinishCause::kStopToken, absl::OkStatus());
  } else if (sequence->output_tokens() >= sequence->request.max_tokens) {
    EndRequest(sequence, FinishCause::kLength, absl::OkStatus());
  }
}

void Engine::Impl::PlanSteps() {
  if (pipeline_.state() != Pipeline::State::kServing) return;
  for (;;) {
    v1::StepPlan plan;
    if (!scheduler_.Plan(now_, &plan)) return;
    pipeline_.SendPlan(std::move(plan), now_, actions_);
  }
}

// ---- the whole

void Engine::Impl::Advance() {
  ExpireLeases();
  ExpireDeadlines();
  pipeline_.TryForm(now_, actions_);
  PlanSteps();
  TellServing();
  scheduler_.CheckLedger();
}

void Engine::Impl::TellServing() {
  if (told_state_ == pipeline_.state()) return;
  told_state_ = pipeline_.state();
  actions_->push_back(
      ServingChanged{pipeline_.state() == Pipeline::State::kServing, pipeline_.WhyNot()});
}

Instant Engine::Impl::next_deadline() {
  Instant deadline = std::min(requests_.next_deadline(), pipeline_.next_deadline());
  for (const Worker* worker : membership_.All()) deadline = std::min(deadline, LeaseEnd(*worker));
  return deadline;
}

void Engine::Impl::FillStatus(Instant now, v1::GetStatusResponse* status) {
  status->set_model(options_.model_name);
  status->set_model_fingerprint(options_.model_fingerprint);
  status->set_build(options_.build);
  status->set_serving(pipeline_.state() == Pipeline::State::kServing);
  status->set_why_not_serving(pipeline_.WhyNot());
  v1::PipelineStatus* const pipeline = status->add_pipelines();
  pipeline_.FillStatus(now, pipeline);
  pipeline->set_blocks_in_use(scheduler_.blocks_in_use());
  pipeline->set_running(scheduler_.running());
  pipeline->set_waiting(scheduler_.waiting());
  pipeline->set_steps_in_flight(static_cast<int32_t>(scheduler_.steps().size()));
  for (const Worker* worker : membership_.InOrder()) {
    if (worker->stage < 0) FillWorkerStatus(*worker, now, status->add_idle_workers());
  }
  v1::RequestCounters* const counters = status->mutable_requests();
  requests_.FillCounters(counters);
  counters->set_preemptions(scheduler_.preemptions());
  counters->set_stale_frames(stale_frames_);
}

Engine::Engine(EngineOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Engine::~Engine() = default;

void Engine::Handle(Event event, Instant now, std::vector<Action>* actions) {
  impl_->now_ = now;
  impl_->actions_ = actions;
  std::visit([this](auto& e) { impl_->On(std::move(e)); }, event);
}

void Engine::Advance(Instant now, std::vector<Action>* actions) {
  impl_->now_ = now;
  impl_->actions_ = actions;
  impl_->Advance();
}

Instant Engine::next_deadline() const { return impl_->next_deadline(); }

void Engine::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  impl_->FillStatus(now, status);
}

}  // namespace tutti
