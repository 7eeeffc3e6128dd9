// Requests: at the door, which pipeline they go to, their steps, their end.
#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/retry_delay.h"
#include "coordinator/engine_impl.h"
#include "coordinator/limits.h"
#include "model/rotary.h"

namespace tutti::coordinator {

// ---- at the door

void Engine::Impl::On(RequestArrived event) {
  LowerDefaultLength(&event.request);
  const absl::Status status = CheckRequest(event.request);
  if (!status.ok()) return requests_.Refuse(event.request, status, actions_);
  event.request.cache_domain =
      DomainOfLength(event.request.cache_domain, event.request.prompt.size());
  queue_.Push(requests_.Add(std::move(event.request), now_));
  may_bind_ = true;
}

// Cached keys may be turned by a base that depends on the prompt's length: requests of different
// variants (model/rotary.h) share nothing.
Hash128 Engine::Impl::DomainOfLength(Hash128 domain, size_t prompt_tokens) const {
  const auto prompt = static_cast<int64_t>(prompt_tokens);
  domain.high += static_cast<uint64_t>(model::RopeVariant(options_.model.rope, prompt) - 1);
  return domain;
}

absl::Status Engine::Impl::CheckRequest(const Request& request) const {
  if (draining_) return absl::UnavailableError("the service is shutting down");
  const int64_t tokens = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  if (request.prompt.empty() || request.max_tokens < 1 || tokens > MaxModelLen(options_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt of ", request.prompt.size(), " tokens and max_tokens of ",
                     request.max_tokens, " do not fit the context of ", MaxModelLen(options_)));
  }
  if (!AnyServing()) return absl::UnavailableError(absl::StrCat("not serving: ", WhyNot()));
  // The last token is sampled, never computed.
  if (const int64_t room = LargestPool(); tokens - 1 > room) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt of ", request.prompt.size(), " tokens and max_tokens of ", request.max_tokens,
        " need room for ", tokens - 1, " tokens in the KV cache, which has ", room));
  }
  TUTTI_RETURN_IF_ERROR(CheckDeadline(request, request.prompt));
  if (queue_.size() >= static_cast<size_t>(options_.max_waiting)) {
    return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat(
                              options_.max_waiting, " requests are waiting already; retry after ",
                              kRetryAfterSeconds, " s")),
                          std::chrono::seconds(kRetryAfterSeconds));
  }
  return absl::OkStatus();
}

// Whether the fastest pipeline, were it idle, could compute what is not cached there of the prompt
// before the deadline. What has never been measured is not held against anybody.
absl::Status Engine::Impl::CheckDeadline(const Request& request,
                                         std::span<const TokenId> tokens) const {
  if (request.deadline == kInstantNever) return absl::OkStatus();
  if (request.deadline <= now_) {
    const auto ago = static_cast<int64_t>(Milliseconds(now_ - request.deadline));
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline passed ", ago, " ms before the request arrived"));
  }
  const double left = Seconds(request.deadline - now_);
  const std::vector<int64_t> cached = CachedTokens(request, tokens);
  double soonest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < units_.size(); ++i) {
    const Unit& unit = *units_[i];
    if (!unit.serving()) continue;
    const auto missing = static_cast<double>(static_cast<int64_t>(tokens.size()) - cached[i]);
    const double rate = unit.rate.rows_per_second();
    soonest = std::min(soonest, rate > 0 ? missing / rate : 0);
  }
  if (soonest <= left) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline cannot be met: computing the prompt of ", tokens.size(), " tokens takes ",
      static_cast<int64_t>(soonest * 1e3), " ms at the pace measured, and ",
      static_cast<int64_t>(left * 1e3), " ms are left"));
}

// Of the tokens, how many from the first each pipeline has cached; the last one is computed always.
std::vector<int64_t> Engine::Impl::CachedTokens(const Request& request,
                                                std::span<const TokenId> tokens) const {
  std::vector<int64_t> cached(units_.size(), 0);
  for (const KvDirectory::Match& match :
       directory_.LongestPerPipeline(request.cache_domain, tokens.first(tokens.size() - 1))) {
    cached[match.pipeline.value()] = match.tokens;
  }
  return cached;
}

// KV slots of the pipeline that serves and has most; 0: none serves.
int64_t Engine::Impl::LargestPool() const {
  int64_t slots = 0;
  for (const auto& unit : units_) {
    if (unit->serving()) slots = std::max(slots, unit->scheduler.kv_slots());
  }
  return slots;
}

// A length nobody asked for is what fits.
void Engine::Impl::LowerDefaultLength(Request* request) const {
  if (!request->max_tokens_is_default) return;
  // The last token is sampled, never computed.
  const int64_t fits = LargestPool() - static_cast<int64_t>(request->prompt.size()) + 1;
  if (fits >= 1 && fits < request->max_tokens) request->max_tokens = static_cast<int32_t>(fits);
}

// ---- which pipeline they go to

// Binds who waits, in the order of their turn, while a pipeline has room for the first. Who is too
// large for now is not overtaken, so that its turn comes.
void Engine::Impl::BindWaiting() {
  if (!std::exchange(may_bind_, false)) return;
  while (Sequence* const sequence = queue_.Front()) {
    Unit* unit = UnitOfGroup(*sequence);
    if (unit == nullptr && !SomebodyHasRoom(*sequence)) return;
    const absl::Status in_time = CheckDeadline(sequence->request, sequence->tokens);
    if (!in_time.ok()) {
      EndRequest(sequence, FinishCause::kError, in_time);
      continue;
    }
    if (unit == nullptr) unit = Route(*sequence);
    queue_.PopFront();
    Bind(sequence, unit);
  }
}

// Several outputs of one request share the blocks of its prompt: they follow the first. Null: it is
// alone, the first of them, or longer than that pipeline can hold.
Engine::Impl::Unit* Engine::Impl::UnitOfGroup(const Sequence& sequence) const {
  const Sequence* const first = requests_.Find(sequence.request.first_output);
  if (first == nullptr || first->pipeline < 0) return nullptr;
  // A length nobody asked for is what fitted when the output came; that may be more for later ones.
  Unit* const unit = units_[first->pipeline].get();
  return unit->scheduler.kv_slots() < sequence.kv_slots_max() ? nullptr : unit;
}

// Looks at every pipeline as the sequence sees it.
bool Engine::Impl::SomebodyHasRoom(const Sequence& sequence) {
  const std::vector<int64_t> cached = CachedTokens(sequence.request, sequence.tokens);
  bool has_room = false;
  loads_.clear();
  for (const auto& unit : units_) {
    PipelineLoad& load = loads_.emplace_back();
    load.cached_tokens = cached[loads_.size() - 1];
    const Scheduler& scheduler = unit->scheduler;
    load.has_room = unit->serving() && scheduler.HasRoom(sequence, load.cached_tokens);
    has_room |= load.has_room;
    load.can_hold = unit->serving() && scheduler.kv_slots() >= sequence.kv_slots_max();
    if (!load.can_hold) continue;
    load.backlog_tokens = scheduler.backlog().tokens();
    load.running = scheduler.running();
    load.waiting = scheduler.waiting();
    const int64_t computed = sequence.total() - load.cached_tokens;
    load.evicted_tokens =
        scheduler.cache().EvictedTokens((computed + options_.block_size - 1) / options_.block_size);
  }
  return has_room;
}

// The cheapest pipeline, which need not be one that has room: some do best to wait for a place on a
// certain pipeline although others have room.  REQUIRES: SomebodyHasRoom has looked for it
Engine::Impl::Unit* Engine::Impl::Route(const Sequence& sequence) {
  const std::optional<size_t> chosen =
      ChoosePipeline(loads_, sequence.total(), options_.max_batch_tokens);
  CHECK(chosen.has_value());
  return units_[*chosen].get();
}

void Engine::Impl::Bind(Sequence* sequence, Unit* unit) {
  sequence->pipeline = static_cast<int32_t>(unit->pipeline.id().value());
  unit->scheduler.Enqueue(sequence);
  MayPlan(unit);
}

// ---- steps

absl::Status Engine::Impl::TakeStepResult(Worker* worker, v1::StepResult* result) {
  Unit* const unit = UnitOf(*worker);
  TUTTI_RETURN_IF_ERROR(unit->scheduler.steps().Check(*result, options_.model.vocab_size));
  TUTTI_RETURN_IF_ERROR(unit->pipeline.OnStepDone(worker, result->done(), now_));
  EndLost(*unit, *result);
  sampled_.clear();
  const int32_t rows = unit->scheduler.steps().oldest().rows;
  unit->scheduler.Commit(result, &sampled_);
  unit->rate.OnStep(rows, unit->scheduler.steps().size(), now_);
  for (const Scheduler::Sampled& sampled : sampled_) CommitToken(sampled);
  MayPlan(unit);
  return absl::OkStatus();
}

// Requests whose numbers left the range of floating point, with the layer where they did.
void Engine::Impl::EndLost(const Unit& unit, const v1::StepResult& result) {
  for (int i = 0; i < std::min(result.faults_size(), kNumericFaultsNamed); ++i) {
    const v1::NumericFault& fault = result.faults(i);
    Sequence* const sequence = unit.scheduler.FindRunning(SequenceId(fault.sequence()));
    if (sequence == nullptr) continue;  // ended meanwhile
    const std::string where = fault.layer() >= options_.model.num_layers
                                  ? "the head"
                                  : absl::StrCat(fault.in_mlp() ? "the MLP" : "the attention",
                                                 " of layer ", fault.layer());
    EndRequest(
        sequence, FinishCause::kError,
        absl::InternalError(absl::StrCat(
            where, " made something that is no number for token ", sequence->output_tokens(),
            " of the output: a value is beyond what ", std::string(DTypeName(options_.model.dtype)),
            " can hold, the checkpoint's type and that of its KV cache")));
  }
}

void Engine::Impl::CommitToken(const Scheduler::Sampled& sampled) {
  Sequence* const sequence = sampled.sequence;
  if (sampled.token == nullptr) {
    return EndRequest(
        sequence, FinishCause::kError,
        absl::InternalError(absl::StrCat("the model gave no number for token ",
                                         sequence->output_tokens(), " of the output")));
  }
  const TokenId token = sampled.token->token();
  DeliverTokens deliver{.request = sequence->request.id, .index = sequence->output_tokens() - 1};
  deliver.tokens.push_back(std::move(*sampled.token));
  actions_->push_back(std::move(deliver));
  requests_.CountGenerated(1);
  const std::vector<TokenId>& stop = sequence->request.stop_token_ids;
  if (std::binary_search(stop.begin(), stop.end(), token)) {
    EndRequest(sequence, FinishCause::kStopToken, absl::OkStatus());
  } else if (sequence->output_tokens() >= sequence->request.max_tokens) {
    EndRequest(sequence, FinishCause::kLength, absl::OkStatus());
  }
}

void Engine::Impl::MayPlan(Unit* unit) {
  if (std::exchange(unit->may_plan, true)) return;
  to_plan_.push_back(unit);
}

void Engine::Impl::PlanSteps() {
  for (Unit* unit : to_plan_) {
    unit->may_plan = false;
    if (!unit->serving()) continue;
    for (v1::StepPlan plan; unit->scheduler.Plan(now_, &plan); plan = v1::StepPlan()) {
      unit->pipeline.SendPlan(std::move(plan), now_, actions_);
    }
    WatchFor(StuckAfter(options_.lease));
    unit->scheduler.CheckLedger();
  }
  to_plan_.clear();
}

// ---- their end

void Engine::Impl::On(const RequestCancelled& event) {
  Sequence* const sequence = requests_.Find(event.request);
  if (sequence == nullptr) return;  // ended meanwhile
  if (event.cause == CancelCause::kStopString) {
    return EndRequest(sequence, FinishCause::kStopString, absl::OkStatus());
  }
  EndRequest(sequence, FinishCause::kError, absl::CancelledError("the client left"));
}

void Engine::Impl::ExpireDeadlines() {
  if (requests_.next_deadline() > now_) return;
  for (Sequence* sequence : requests_.Expired(now_)) {
    EndRequest(sequence, FinishCause::kError,
               absl::DeadlineExceededError(absl::StrCat("deadline passed after ",
                                                        sequence->output_tokens(), " of ",
                                                        sequence->request.max_tokens, " tokens")));
  }
}

void Engine::Impl::EndRequest(Sequence* sequence, FinishCause cause, absl::Status status) {
  Release(sequence);
  requests_.Finish(sequence, cause, std::move(status), actions_);
}

// It gives back its place, wherever that is.
void Engine::Impl::Release(Sequence* sequence) {
  may_bind_ = true;
  if (sequence->pipeline < 0) return queue_.Erase(sequence);
  Unit* const unit = units_[sequence->pipeline].get();
  unit->scheduler.Remove(sequence);
  queue_.Settle(sequence);
  sequence->pipeline = -1;
  MayPlan(unit);
}

}  // namespace tutti::coordinator
