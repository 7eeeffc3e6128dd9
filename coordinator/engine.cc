#include "coordinator/engine.h"

#include <google/protobuf/descriptor.h>

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

KvDirectoryOptions DirectoryOptionsOf(const EngineOptions& options) {
  return {.key = options.prefix_key,
          .model_fingerprint = options.model_fingerprint,
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
      directory_(DirectoryOptionsOf(options_)),
      admission_(&options_, &directory_, &steps_due_) {
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
  Watch();
  admission_.ExpireDeadlines(now, actions);
  FormPipelines();
  admission_.BindWaiting(now, actions);
  PlanSteps();
  ReportServing();
}

Instant Engine::next_deadline() const {
  return std::min({admission_.next_deadline(), fleet_.next_deadline(), watch_at_});
}

// ---- events

void Engine::On(RequestArrived event) {
  admission_.HandleRequest(std::move(event.request), WhyNotServing(), now_, actions_);
}

void Engine::On(const RequestCancelled& event) { admission_.HandleCancellation(event, actions_); }

void Engine::On(const WorkerJoined& event) {
  if (const std::optional<LostWorker> namesake =
          fleet_.FindExpiredNamesake(event.hello.worker_id(), now_)) {
    LoseWorker(namesake->link, namesake->reason, true);
  }
  fleet_.HandleJoin(event, now_, actions_);
}

void Engine::On(const WorkerLost& event) { LoseWorker(event.link, event.reason, false); }

void Engine::On(WorkerFrame event) {
  Worker* const worker = fleet_.Find(event.link);
  if (worker == nullptr) return;  // closed by us; frames under way are of no interest
  fleet_.RenewLease(worker, event.frame, now_);
  // A beat is about the process, not about a pipeline; everything else passes the gate.
  if (!event.frame.has_beat() && !PassesEpochGate(*worker, event.frame)) return;
  const absl::Status status = HandleFrame(worker, &event.frame);
  if (!status.ok()) LoseWorker(event.link, status, true);
}

// ---- frames of workers

// The epoch gate: a frame that passes belongs to the pipeline that the worker serves now.
bool Engine::PassesEpochGate(const Worker& worker, const v1::Frame& frame) {
  const Replica* const replica = ReplicaOf(worker);
  if (replica != nullptr && frame.epoch() == replica->pipeline.epoch().value()) return true;
  ++stale_frames_;
  return replica != nullptr &&
         (TUTTI_FAIL_POINT("coordinator.skip_epoch_check") ||
          (worker.rank > 0 && TUTTI_FAIL_POINT("coordinator.skip_rank_epoch")));
}

absl::Status Engine::HandleFrame(Worker* worker, v1::Frame* frame) {
  if (frame->has_beat()) return HandleBeat(worker, frame->beat());
  Pipeline& pipeline = ReplicaOf(*worker)->pipeline;
  const bool serving = pipeline.state() == Pipeline::State::kServing;
  switch (frame->body_case()) {
    case v1::Frame::kShardProgress:
      return pipeline.OnShardProgress(*worker, frame->shard_progress());
    case v1::Frame::kShardReady:
      return HandleShardReady(worker, frame->shard_ready());
    case v1::Frame::kStepDone:
      if (!serving || pipeline.TellsResults(*worker)) break;
      WatchFor(StuckAfter(options_.lease));  // the next stage can go on
      return pipeline.OnStepDone(worker, frame->step_done(), now_);
    case v1::Frame::kStepResult:
      if (!serving || !pipeline.TellsResults(*worker)) break;
      return HandleStepResult(worker, frame->mutable_step_result());
    case v1::Frame::kFailure:
      return HandleFailure(*worker, frame->failure());
    default:
      break;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "it sent ", FrameName(*frame), ", which is not expected of it while its pipeline ",
      serving ? "serves" : "loads"));
}

absl::Status Engine::HandleBeat(Worker* worker, const v1::Beat& beat) {
  // The pipeline may now wait for another worker, which may have been stuck for long.
  if (worker->waiting_for != beat.waiting_for()) WatchFor(StuckAfter(options_.lease));
  return fleet_.HandleBeat(worker, beat, now_);
}

absl::Status Engine::HandleShardReady(Worker* worker, const v1::ShardReady& ready) {
  Replica* const replica = ReplicaOf(*worker);
  TUTTI_RETURN_IF_ERROR(replica->pipeline.OnShardReady(*worker, ready, now_));
  if (replica->serving()) {
    replica->scheduler.BeginEpoch(replica->pipeline.num_stages(), replica->pipeline.num_blocks());
    admission_.HandleRoomChange();
    state_changed_ = true;
  }
  return absl::OkStatus();
}

// A rank that gave up waiting for another is most often not the one to blame: the other is lost,
// and the one that gave up waits for its next shard.
absl::Status Engine::HandleFailure(const Worker& worker, const v1::Failure& failure) {
  const Worker& culprit = ReplicaOf(worker)->pipeline.Culprit(worker);
  if (&culprit == &worker)
    return absl::AbortedError(absl::StrCat("it failed: ", failure.message()));
  LoseWorker(culprit.link,
             absl::AbortedError(absl::StrCat(worker.id(), " failed: ", failure.message())), true);
  return absl::OkStatus();
}

// ---- steps

absl::Status Engine::HandleStepResult(Worker* worker, v1::StepResult* result) {
  Replica* const replica = ReplicaOf(*worker);
  Scheduler& scheduler = replica->scheduler;
  TUTTI_RETURN_IF_ERROR(scheduler.steps().Check(*result, options_.model.vocab_size));
  TUTTI_RETURN_IF_ERROR(replica->pipeline.OnStepDone(worker, result->done(), now_));
  EndFaulty(*replica, *result);
  sampled_.clear();
  const int32_t rows = scheduler.steps().oldest().rows;
  scheduler.Commit(result, &sampled_);
  replica->rate.OnStep(rows, scheduler.steps().size(), now_);
  for (const Scheduler::Sampled& sampled : sampled_) CommitToken(sampled);
  steps_due_.Add(replica->id());
  return absl::OkStatus();
}

// Ends the requests whose numbers left the range of floating point, naming the layer.
void Engine::EndFaulty(const Replica& replica, const v1::StepResult& result) {
  for (int i = 0; i < std::min(result.faults_size(), kNumericFaultsNamed); ++i) {
    const v1::NumericFault& fault = result.faults(i);
    Sequence* const sequence = replica.scheduler.FindRunning(SequenceId(fault.sequence()));
    if (sequence == nullptr) continue;  // ended meanwhile
    const std::string where =
        fault.layer() >= options_.model.num_layers
            ? "the head"
            : absl::StrCat(fault.in_mlp() ? "the MLP" : "attention", " of layer ", fault.layer());
    admission_.End(sequence, FinishCause::kError,
                   absl::InternalError(absl::StrCat(
                       where, " produced NaN or Inf for token ", sequence->output_tokens(),
                       " of the output: a value is beyond the range of ",
                       std::string(DTypeName(options_.model.dtype)),
                       ", the type of the checkpoint and of its KV cache")),
                   actions_);
  }
}

void Engine::CommitToken(const Scheduler::Sampled& sampled) {
  Sequence* const sequence = sampled.sequence;
  if (sampled.token == nullptr) {
    return admission_.End(
        sequence, FinishCause::kError,
        absl::InternalError(absl::StrCat("the model produced NaN or Inf for token ",
                                         sequence->output_tokens(), " of the output")),
        actions_);
  }
  const TokenId token = sampled.token->token();
  DeliverTokens deliver{.request = sequence->request.id, .index = sequence->output_tokens() - 1};
  deliver.tokens.push_back(std::move(*sampled.token));
  actions_->push_back(std::move(deliver));
  admission_.CountGenerated(1);
  const std::vector<TokenId>& stop = sequence->request.stop_token_ids;
  if (std::binary_search(stop.begin(), stop.end(), token)) {
    admission_.End(sequence, FinishCause::kStopToken, absl::OkStatus(), actions_);
  } else if (sequence->output_tokens() >= sequence->request.max_tokens) {
    admission_.End(sequence, FinishCause::kLength, absl::OkStatus(), actions_);
  }
}

void Engine::PlanSteps() {
  for (const PipelineId id : steps_due_.pipelines()) {
    Replica& replica = *replicas_[id.value()];
    if (!replica.serving()) continue;
    replica.PlanSteps(now_, actions_);
    WatchFor(StuckAfter(options_.lease));
  }
  steps_due_.Clear();
}

// ---- pipelines and their workers

Replica* Engine::AddReplica() {
  const PipelineId id(static_cast<uint32_t>(replicas_.size()));
  replicas_.push_back(
      std::make_unique<Replica>(id, &options_, fleet_.membership(), &last_epoch_, &directory_));
  Replica* const added = replicas_.back().get();
  admission_.AddTarget({.scheduler = &added->scheduler, .rate = &added->rate});
  return added;
}

// Null: the worker is idle.
Replica* Engine::ReplicaOf(const Worker& worker) const {
  return worker.pipeline < 0 ? nullptr : replicas_[worker.pipeline].get();
}

void Engine::FormPipelines() {
  if (!fleet_.FormingIsDue(now_)) return;
  std::vector<Vacancy> vacancies;
  for (const auto& replica : replicas_) {
    const Pipeline& pipeline = replica->pipeline;
    if (pipeline.state() != Pipeline::State::kWaiting) continue;
    vacancies.push_back(
        {pipeline.id(), pipeline.WantsWorkers(now_) ? now_ : pipeline.next_deadline()});
  }
  const bool any_formed = vacancies.size() < replicas_.size();
  FormingResult result = fleet_.Form(vacancies, any_formed, now_, actions_);
  for (FormingOutcome& outcome : result.outcomes) {
    Replica* const replica =
        outcome.pipeline.has_value() ? replicas_[outcome.pipeline->value()].get() : AddReplica();
    if (outcome.formation.ok()) {
      replica->pipeline.Form(*outcome.formation, now_, actions_);
      state_changed_ = true;
      WatchFor(options_.load_timeout);
    } else {
      replica->pipeline.CannotForm(std::string(outcome.formation.status().message()));
    }
    if (outcome.notice.has_value()) actions_->push_back(*std::move(outcome.notice));
  }
  if (result.complete) fleet_.ReleaseIdleShards(actions_);
}

void Engine::EndPipeline(Replica* replica, const std::string& why) {
  const bool serving = replica->serving();
  replica->pipeline.End(why, now_);
  replica->rate.Forget();
  fleet_.HandlePipelineEnd();
  admission_.HandleRoomChange();
  state_changed_ = true;
  if (serving) admission_.RecoverSequences(replica->id(), why, actions_);
}

// `close`: the link is still open, and the worker is told why it will not be.
void Engine::LoseWorker(LinkKey link, const absl::Status& reason, bool close) {
  const Worker* const worker = fleet_.Find(link);
  if (worker == nullptr) return;  // never joined, or closed by us
  Replica* const replica = ReplicaOf(*worker);
  const std::string name = replica == nullptr ? absl::StrCat("worker ", worker->id())
                                              : replica->pipeline.Describe(*worker);
  fleet_.Remove(link, now_);
  if (close) actions_->push_back(CloseWorker{link, reason});
  if (replica != nullptr) {
    EndPipeline(replica, absl::StrCat(name, " was lost: ", reason.message()));
  }
}

// Looks at every worker and every pipeline, but only when the time of some lease, load or step may
// have run out. At all of them at once: times that were renewed meanwhile then cost one wake-up.
void Engine::Watch() {
  if (now_ < std::min(fleet_.leases_until(), watch_at_)) return;
  for (const LostWorker& lost : fleet_.FindExpired(now_)) LoseWorker(lost.link, lost.reason, true);
  for (const auto& replica : replicas_) {
    Pipeline& pipeline = replica->pipeline;
    if (const std::optional<Pipeline::Stuck> stuck = pipeline.FindStuck(now_)) {
      LoseWorker(stuck->link, absl::DeadlineExceededError(stuck->why), true);
    }
    if (pipeline.LoadTimedOut(now_)) {
      EndPipeline(replica.get(),
                  absl::StrCat(pipeline.WhyNot(), " took longer than ",
                               static_cast<int64_t>(Seconds(options_.load_timeout)), " s"));
    }
  }
  fleet_.UpdateLeasesUntil();
  watch_at_ = kInstantNever;
  for (const auto& replica : replicas_) {
    if (replica->pipeline.state() == Pipeline::State::kWaiting) continue;
    watch_at_ = std::min(watch_at_, replica->pipeline.next_deadline());
  }
}

// ---- the whole, as others see it

bool Engine::AnyServing() const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [](const auto& replica) { return replica->serving(); });
}

// "" while some pipeline serves.
std::string Engine::WhyNotServing() const {
  if (AnyServing()) return "";
  if (replicas_.size() == 1) return replicas_.front()->pipeline.WhyNot();
  return absl::StrJoin(replicas_, "; ", [](std::string* out, const auto& replica) {
    absl::StrAppend(out, "pipeline ", replica->id().value(), ": ", replica->pipeline.WhyNot());
  });
}

void Engine::ReportServing() {
  if (!std::exchange(state_changed_, false)) return;
  // The state of the pipeline that has come furthest.
  Pipeline::State state = Pipeline::State::kWaiting;
  for (const auto& replica : replicas_) state = std::max(state, replica->pipeline.state());
  if (told_state_ == state) return;
  told_state_ = state;
  actions_->push_back(ServingChanged{state == Pipeline::State::kServing, WhyNotServing()});
}

void Engine::FillStatus(Instant now, v1::GetStatusResponse* status) const {
  status->set_model(options_.model_name);
  status->set_model_fingerprint(options_.model_fingerprint);
  status->set_build(options_.build);
  status->set_serving(AnyServing());
  status->set_why_not_serving(WhyNotServing());
  v1::RequestCounters* const counters = status->mutable_requests();
  for (const auto& replica : replicas_) {
    replica->FillStatus(now, status->add_pipelines());
    counters->set_preemptions(counters->preemptions() + replica->scheduler.preemptions());
  }
  admission_.FillStatus(status);
  fleet_.FillStatus(now, status);
  counters->set_stale_frames(stale_frames_);
}

void Engine::LookupPrefix(const Hash128& domain, std::span<const TokenId> tokens,
                          v1::LookupPrefixResponse* response) const {
  response->set_prompt_tokens(static_cast<int32_t>(tokens.size()));
  const Hash128 own = admission_.DomainOfLength(domain, tokens.size());
  for (const KvDirectory::Match& match : directory_.LongestPerPipeline(own, tokens)) {
    replicas_[match.pipeline.value()]->pipeline.FillHolding(match.tokens, response->add_holdings());
  }
}

}  // namespace tutti::coordinator
