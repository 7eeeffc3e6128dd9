#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "coordinator/engine_impl.h"
#include "coordinator/limits.h"

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

Engine::Impl::Impl(EngineOptions options)
    : options_(std::move(options)),
      membership_(MembershipOptionsOf(options_)),
      pipeline_(&options_, &membership_),
      scheduler_(SchedulerOptionsOf(options_)) {}

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
