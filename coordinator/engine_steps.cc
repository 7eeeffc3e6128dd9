// The engine's dealings with steps: what workers say of them, what becomes of the results,
// and the next ones.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fail_point.h"
#include "coordinator/engine.h"
#include "coordinator/limits.h"
#include "coordinator/metrics/step_metrics.h"

namespace tutti::coordinator {

absl::Status Engine::HandleStepDone(Worker* worker, const v1::StepDone& done) {
  Replica* const replica = ReplicaOf(*worker);
  WatchFor(StuckAfter(options_.lease, options_.beat_interval));  // the next stage can go on
  TUTTI_RETURN_IF_ERROR(replica->pipeline.OnStepDone(worker, done, now_));
  CommitRebuilds(replica, replica->pipeline.done_by_all());
  return absl::OkStatus();
}

// The oldest steps up to `last_done`, which all workers have done, as far as they are rebuilds.
void Engine::CommitRebuilds(Replica* replica, uint64_t last_done) {
  Scheduler& scheduler = replica->scheduler;
  while (scheduler.steps().size() > 0 && scheduler.steps().oldest().rebuild.has_value() &&
         scheduler.steps().oldest().id.value() <= last_done) {
    v1::StepResult nothing;
    scheduler.Commit(&nothing, &sampled_);
    steps_due_.Add(replica->id());
  }
}

absl::Status Engine::HandleStepResult(Worker* worker, v1::StepResult* result) {
  Replica* const replica = ReplicaOf(*worker);
  Scheduler& scheduler = replica->scheduler;
  TUTTI_RETURN_IF_ERROR(scheduler.steps().Check(*result, options_.model.vocab_size));
  TUTTI_RETURN_IF_ERROR(replica->pipeline.OnStepDone(worker, result->done(), now_));
  CommitRebuilds(replica, replica->pipeline.done_by_all());
  // About a rebuild it says that the last stage has done its part only; of any other step, that all
  // stages have done it, and those before.
  const StepWindow& steps = scheduler.steps();
  if (result->step() < steps.first_id().value()) return absl::OkStatus();
  if (steps.IsRebuild(result->step())) return absl::OkStatus();
  CommitRebuilds(replica, result->step());
  EndFaulty(*replica, *result);
  sampled_.clear();
  const int32_t rows = scheduler.steps().oldest().rows;
  const bool bounded = scheduler.steps().oldest().bounded;
  scheduler.Commit(result, &sampled_);
  if (options_.step_metrics != nullptr) options_.step_metrics->OnStep(replica->id(), rows);
  replica->rate.OnStep(rows, bounded, scheduler.steps().size(), now_);
  const Sequence* ended = nullptr;
  for (const Scheduler::Sampled& sampled : sampled_) {
    if (sampled.sequence == ended) continue;  // the rest of its tokens
    if (CommitToken(sampled, *result)) ended = sampled.sequence;
  }
  steps_due_.Add(replica->id());
  return absl::OkStatus();
}

namespace {

absl::Status FaultOf(const v1::NumericFault& fault, const Sequence& sequence,
                     const model::ModelConfig& model) {
  const std::string where =
      fault.layer() >= model.num_layers
          ? "the head"
          : absl::StrCat(fault.in_mlp() ? "the MLP" : "attention", " of layer ", fault.layer());
  return absl::InternalError(absl::StrCat(
      where, " produced NaN or Inf for token ", sequence.output_tokens(),
      " of the output: a value is beyond the range of ", std::string(DTypeName(model.dtype)),
      ", the type of the checkpoint and of its KV cache"));
}

// A caller's mistake, or more than a grammar may take; all else is a fault of ours.
absl::Status StatusOf(const v1::UndrawnRow& row) {
  const auto code = static_cast<absl::StatusCode>(row.code());
  const bool is_known = code == absl::StatusCode::kInvalidArgument ||
                        code == absl::StatusCode::kResourceExhausted ||
                        code == absl::StatusCode::kFailedPrecondition;
  return absl::Status(is_known ? code : absl::StatusCode::kInternal,
                      row.message().substr(0, kUndrawnBytesMax));
}

}  // namespace

// Ends the requests whose numbers left the range of floating point, naming the layer. Those of a
// guess that was wrong are nobody's: of a sequence with guesses the token that lacks tells
// (WhyNoToken).
void Engine::EndFaulty(const Replica& replica, const v1::StepResult& result) {
  const std::vector<StepEntry>& entries = replica.scheduler.steps().oldest().entries;
  for (int i = 0; i < std::min(result.faults_size(), kNumericFaultsNamed); ++i) {
    const v1::NumericFault& fault = result.faults(i);
    Sequence* const sequence = replica.scheduler.FindRunning(SequenceId(fault.sequence()));
    if (sequence == nullptr) continue;  // ended meanwhile
    const bool guesses = std::any_of(entries.begin(), entries.end(), [&](const StepEntry& entry) {
      return entry.guesses > 0 && entry.sequence == sequence->stay.id;
    });
    if (guesses) continue;
    admission_.End(sequence, FinishCause::kError, FaultOf(fault, *sequence, options_.model),
                   actions_);
  }
}

// The reason that the step drew no token for the sequence, in the words of the worker where it has
// some.
absl::Status Engine::WhyNoToken(const Sequence& sequence, const v1::StepResult& result) const {
  const uint64_t id = sequence.stay.id.value();
  for (const v1::UndrawnRow& row : result.undrawn()) {
    if (row.sequence() == id) return StatusOf(row);
  }
  for (int i = 0; i < std::min(result.faults_size(), kNumericFaultsNamed); ++i) {
    if (result.faults(i).sequence() == id) {
      return FaultOf(result.faults(i), sequence, options_.model);
    }
  }
  return absl::InternalError(absl::StrCat("the model produced NaN or Inf for token ",
                                          sequence.output_tokens(), " of the output"));
}

// True: it was its sequence's last.
bool Engine::CommitToken(const Scheduler::Sampled& sampled, const v1::StepResult& result) {
  Sequence* const sequence = sampled.sequence;
  if (sampled.token == nullptr) {
    admission_.End(sequence, FinishCause::kError, WhyNoToken(*sequence, result), actions_);
    return true;
  }
  const TokenId token = sampled.token->token();
  DeliverTokens deliver{.request = sequence->request.id, .index = sampled.index};
  deliver.tokens.push_back(std::move(*sampled.token));
  admission_.HandleProgress(sequence, now_, actions_);
  if (!std::exchange(sequence->begun, true)) {
    deliver.begun = std::make_shared<const OutputBegun>(
        OutputBegun{.max_tokens = sequence->request.max_tokens, .numerics = sequence->numerics});
  }
  const std::vector<TokenId>& stop = sequence->request.stop_token_ids;
  const int32_t tokens = sampled.index + 1;
  const bool is_newest = tokens == sequence->output_tokens();
  const bool stops = std::binary_search(stop.begin(), stop.end(), token) &&
                     (is_newest || !TUTTI_FAIL_POINT("coordinator.guess_beyond_stop"));
  deliver.last = stops || tokens >= sequence->request.max_tokens;
  const bool last = deliver.last;
  actions_->push_back(std::move(deliver));
  if (!last) return false;
  sequence->tokens.resize(static_cast<size_t>(sequence->prompt_tokens + tokens));
  admission_.End(sequence, stops ? FinishCause::kStopToken : FinishCause::kLength, absl::OkStatus(),
                 actions_);
  return true;
}

// On each pipeline until enough steps are under way or nothing is left to compute.
void Engine::PlanSteps() {
  for (const PipelineId id : steps_due_.pipelines()) {
    Replica& replica = *replicas_[id.value()];
    if (!replica.serving()) continue;
    for (v1::StepPlan plan; replica.scheduler.Plan(now_, &plan); plan = v1::StepPlan()) {
      replica.pipeline.SendPlan(std::move(plan), now_, actions_);
    }
    replica.scheduler.CheckLedger();
    WatchFor(StuckAfter(options_.lease, options_.beat_interval));
  }
  steps_due_.Clear();
}

}  // namespace tutti::coordinator
