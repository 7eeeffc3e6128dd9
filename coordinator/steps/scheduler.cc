#include "coordinator/steps/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "base/fail_point.h"

namespace tutti::coordinator {

Scheduler::Scheduler(const SchedulerOptions& options, KvDirectory* directory, PipelineId pipeline)
    : options_(options),
      plan_size_{.bytes_max = options.plan_bytes_max,
                 .block_size = options.block_size,
                 .max_batch_tokens = options.max_batch_tokens,
                 .max_sequences = options.max_sequences,
                 .token_bytes = options.token_bytes},
      cache_(directory, pipeline, options.block_size),
      rebuilds_(plan_size_, &cache_),
      time_(options.itl_target),
      shares_(options.block_size),
      guesses_in_plan_(GuessesInPlan(plan_size_)) {
  CHECK(options.block_size > 0 && options.max_batch_tokens > 0 && options.chunk_tokens >= 0 &&
        options.max_sequences > 0);
}

void Scheduler::BeginEpoch(int32_t num_stages, int32_t num_blocks, const KvSurvival* survival) {
  CHECK(!open_ && running_.empty());
  open_ = true;
  num_stages_ = num_stages;
  if (survival != nullptr && survival->any() && cache_.CanResume(num_blocks)) {
    cache_.Resume(*survival);
  } else {
    cache_.Open(num_blocks);
  }
  steps_.Clear();
  finished_.clear();
}

void Scheduler::EndEpoch() {
  while (!running_.empty()) {
    Sequence* const sequence = running_.begin()->second;
    if (TUTTI_FAIL_POINT("coordinator.believe_half_written")) {
      sequence->stay.computed = sequence->stay.planned;
      cache_.Publish(sequence);
    }
    Leave(sequence);
    Wait(sequence);
  }
  CHECK(backlog_.SumsAreRight());
  options_.partial_recompute ? cache_.LayBy() : cache_.Close();
  open_ = false;
  steps_.Clear();
  finished_.clear();
}

std::optional<BlockId> Scheduler::FreeOfLastEpoch(int32_t num_blocks) {
  CHECK(!open_);
  if (!cache_.CanResume(num_blocks)) return std::nullopt;
  return cache_.FreeOfLaidBy();
}

void Scheduler::Enqueue(Sequence* sequence) {
  CHECK(sequence->kv_slots_max() <= kv_slots() &&
        FitsPlan(sequence->kv_slots_max(), sequence->request.sampling))
      << "request " << sequence->request.id;
  sequence->place = ++last_place_;
  sequence->held_back = {};  // the last one was on another pipeline
  Wait(sequence);
}

void Scheduler::Wait(Sequence* sequence) {
  backlog_.Wait(sequence);
  shares_.Wait(sequence);
}

bool Scheduler::Unwait(Sequence* sequence) {
  if (!backlog_.Unwait(sequence)) return false;
  shares_.Unwait(sequence);
  return true;
}

void Scheduler::Remove(Sequence* sequence) {
  if (Unwait(sequence)) return;
  Leave(sequence);
}

std::vector<Sequence*> Scheduler::Running() const {
  std::vector<Sequence*> all;
  for (const auto& [key, sequence] : running_) all.push_back(sequence);
  return all;
}

Sequence* Scheduler::FindRunning(SequenceId id) const {
  const auto found = running_by_id_.find(id);
  return found == running_by_id_.end() ? nullptr : found->second;
}

std::vector<Sequence*> Scheduler::PopWaiting() {
  std::vector<Sequence*> popped;
  for (const auto& [key, sequence] : backlog_.waiting()) popped.push_back(sequence);
  for (Sequence* sequence : popped) Unwait(sequence);
  return popped;
}

bool Scheduler::Plan(Instant now, v1::StepPlan* plan) {
  if (!WantsAnotherStep()) return false;
  if (PlanRebuild(plan)) return true;
  others_lately_ = others_at_.has_value() && now - *others_at_ < kOthersLately;
  // A sequence that was sent back may leave room for others, though no row in this step. And late
  // rows need not wait where nothing else is to do.
  for (bool once_more = true; once_more;) {
    Decide();
    once_more = scratch_.rows.empty() && scratch_.preempted;
    if (!scratch_.rows.empty() || once_more || !IsIdle() || late_.empty()) continue;
    PutLateInLine();
    once_more = true;
  }
  if (scratch_.rows.empty()) return PlanRebuild(plan);
  if (one_behind_.owners() > 1) others_at_ = now;
  WritePlan(now, plan);
  return true;
}

void Scheduler::Decide() {
  Scratch fresh{.rows = std::move(scratch_.rows),
                .guesses = std::move(scratch_.guesses),
                .early = std::move(scratch_.early)};
  scratch_ = std::move(fresh);
  scratch_.rows.clear();
  scratch_.guesses.clear();
  scratch_.early.clear();
  scratch_.budget = options_.max_batch_tokens;
  scratch_.new_bytes = PlanBytesForNew(plan_size_);
  scratch_.new_fields = PlanFieldsForNew(plan_size_);
  time_.Reset();
  // Beside prompts alone one of them takes turns with these as any row does.
  if (one_behind_.empty() && !backlog_.behind().empty()) {
    PutLateInLine(/*due=*/1);
  }
  scratch_.another_owner = AnotherOwnerComes();
  ContinueRunning();
  const bool had_rows = !scratch_.rows.empty();
  ContinuePrompts();
  // Beside newcomers alone.
  if (!had_rows && !scratch_.rows.empty()) ContinueLate(std::min(scratch_.budget, 1));
  Guess();
  AskForDrafts();
}

bool Scheduler::CanPlan() {
  if (!WantsAnotherStep()) return false;
  if (IsIdle() && !late_.empty()) return true;
  return rebuilds_.size() > 0 || !one_behind_.empty() || !backlog_.behind().empty() ||
         FindNewcomer().has_value();
}

// As many steps as stages keep every stage busy. One more hides the way of a result to us and of a
// plan back, but only if it is worth it: a full share of generating sequences, or prompts while
// no sequence generates. A step of prompts ahead of a sequence's next token would make that token
// wait for two steps instead of one; and with less than a full share, waiting for the next result
// lets stragglers join a larger step. Where rows take turns, a step more would only make the others
// wait for it.
bool Scheduler::WantsAnotherStep() {
  const auto under_way = static_cast<int32_t>(steps_.size());
  if (alone_ != nullptr && under_way > 0) return false;
  if (under_way < num_stages_) return true;
  if (under_way > num_stages_) return false;
  const bool all_have_rows = Share() == EvenShare();
  if (all_have_rows && one_behind_.size() >= Share()) return true;
  return Generating() == 0 && (!backlog_.behind().empty() || FindNewcomer().has_value());
}

// Without those whose rows are late: they come with any step.
int32_t Scheduler::Generating() const {
  return static_cast<int32_t>(running_.size() - backlog_.behind().size() - rebuilds_.size() -
                              late_.size());
}

void Scheduler::Schedule(Sequence* sequence, int32_t count) {
  scratch_.rows.push_back({.sequence = sequence, .count = count});
  scratch_.budget -= count;
  // What was guessed right is told as tokens now.
  const int32_t more = sequence->total() - sequence->stay.tokens_told - 1;
  if (sequence->stay.known_to_workers && more > 0) {
    scratch_.new_bytes -= GuessBytes(plan_size_, more);
  }
}

// Makes room for the sequence's next token. False: the sequence itself had to go.
bool Scheduler::GrowBlocks(Sequence* sequence) {
  const int32_t wanted = cache_.Missing(*sequence, int64_t{sequence->stay.planned} + 1);
  if (wanted == 0) return true;
  while (cache_.available() < wanted) {
    Sequence* const first_to_go = shares_.FirstToGo();
    Preempt(first_to_go);
    scratch_.preempted = true;
    if (first_to_go == sequence) return false;
  }
  cache_.Grow(wanted, sequence);
  return true;
}

void Scheduler::Preempt(Sequence* sequence) {
  const auto row = std::find_if(scratch_.rows.begin(), scratch_.rows.end(),
                                [&](const Row& r) { return r.sequence == sequence; });
  if (row != scratch_.rows.end()) {
    scratch_.budget += row->count;
    scratch_.rows.erase(row);
  }
  ++preemptions_;
  ++sequence->preemptions;
  Leave(sequence);
  Wait(sequence);
}

void Scheduler::Leave(Sequence* sequence) {
  CHECK(running_.erase(sequence->preemption_key()) == 1)
      << "request " << sequence->request.id << " neither waits nor runs";
  running_by_id_.erase(sequence->stay.id);
  shares_.Stop(sequence);
  Unqueue(sequence);
  one_behind_.Stop(sequence);
  guess_sources_.Forget(*sequence);
  filling_.erase(sequence->stay.id);
  cache_.Release(*sequence);
  if (sequence->stay.known_to_workers && !TUTTI_FAIL_POINT("coordinator.forget_finished")) {
    finished_.push_back(sequence->stay.id);
  }
  sequence->stay = {};
}

void Scheduler::Queue(Sequence* sequence) {
  if (sequence->behind() == 1) {
    one_behind_.Add(sequence);
  } else if (sequence->behind() > 1) {
    backlog_.FallBehind(sequence);
  }
}

void Scheduler::Unqueue(Sequence* sequence) {
  if (one_behind_.Erase(sequence) || backlog_.Forget(sequence) || rebuilds_.Erase(sequence)) return;
  late_.Erase(sequence);
}

// Opens the next step, and tells the workers of those that have left.
StepUnderWay* Scheduler::BeginPlan(v1::StepPlan* plan) {
  StepUnderWay* const step = steps_.Push();
  plan->set_step(step->id.value());
  plan->mutable_finished()->Reserve(static_cast<int>(finished_.size()));
  for (const SequenceId id : finished_) plan->add_finished(id.value());
  finished_.clear();
  return step;
}

// Blocks that stages have lost come first. False: none is due.
bool Scheduler::PlanRebuild(v1::StepPlan* plan) {
  Rebuilds::Planned planned = rebuilds_.Plan(&last_sequence_id_, plan);
  for (Sequence* sequence : planned.ready) Queue(sequence);
  if (!planned.rebuild.has_value()) return false;
  BeginPlan(plan)->rebuild = std::move(planned.rebuild);
  finished_ = std::move(planned.told);
  return true;
}

void Scheduler::WritePlan(Instant now, v1::StepPlan* plan) {
  StepUnderWay* const step = BeginPlan(plan);
  step->rows = options_.max_batch_tokens - scratch_.budget;
  step->bounded = scratch_.out_of_time;
  if (step->bounded) ++bounded_steps_;
  plan->set_total_rows(step->rows);
  plan->mutable_scheduled()->Reserve(static_cast<int>(scratch_.rows.size()));
  for (const Row& row : scratch_.rows) {
    Sequence* const sequence = row.sequence;
    WriteRow(row, now, plan);
    step->entries.push_back({.sequence = sequence->stay.id,
                             .end = sequence->stay.planned,
                             .sample = sequence->behind() == 0,
                             .guesses = row.guesses,
                             .first_guess = row.first_guess,
                             .origin = row.origin,
                             .drafts = row.drafts.value_or(0)});
  }
  std::swap(step->guesses, scratch_.guesses);
}

void Scheduler::WriteRow(const Row& row, Instant now, v1::StepPlan* plan) {
  Sequence* const sequence = row.sequence;
  if (!sequence->first_planned_at.has_value()) sequence->first_planned_at = now;
  const int32_t total = sequence->total();
  Sequence::Stay& stay = sequence->stay;
  if (!stay.known_to_workers) {
    v1::NewSequence* const added = plan->add_new_sequences();
    added->set_sequence(stay.id.value());
    added->mutable_tokens()->Add(sequence->tokens.begin(), sequence->tokens.end());
    added->set_prompt_tokens(sequence->prompt_tokens);
    *added->mutable_sampling() = sequence->request.sampling;
    added->set_cached_tokens(stay.planned);
    stay.known_to_workers = true;
    stay.tokens_told = total;
  }
  v1::ScheduledSequence* const scheduled = plan->add_scheduled();
  scheduled->set_sequence(stay.id.value());
  scheduled->set_first(stay.planned);
  scheduled->set_count(row.count + row.guesses);
  const auto blocks = static_cast<int32_t>(stay.blocks.size());
  for (; stay.blocks_told < blocks; ++stay.blocks_told) {
    scheduled->add_new_blocks(stay.blocks[stay.blocks_told].value());
  }
  for (; stay.tokens_told < total; ++stay.tokens_told) {
    scheduled->add_new_tokens(sequence->tokens[stay.tokens_told]);
  }
  scheduled->set_sample(row.count == sequence->behind());
  scheduled->set_again(stay.late > 0);
  scheduled->set_expected_tokens(total);
  scheduled->set_expected_blocks(blocks);
  const auto guesses =
      std::span(scratch_.guesses).subspan(row.first_guess, static_cast<size_t>(row.guesses));
  scheduled->mutable_guesses()->Add(guesses.begin(), guesses.end());
  if (row.drafts.has_value()) {
    scheduled->set_drafts(*row.drafts);
    // As workers have it (worker/drafter.h).
    const int32_t rows_max = std::min(options_.max_batch_tokens, row.count + kDraftsBehindMax);
    stay.draft_read = std::min(stay.planned + row.count, stay.draft_read + rows_max);
  }
  if (!TUTTI_FAIL_POINT("coordinator.keep_drafts")) stay.drafts.clear();

  cache_.CheckWritable(*sequence, stay.planned, stay.planned + row.count + row.guesses);
  backlog_.Advance(sequence, row.count);
  if (sequence->behind() == 1) one_behind_.Add(sequence);
}

}  // namespace tutti::coordinator
