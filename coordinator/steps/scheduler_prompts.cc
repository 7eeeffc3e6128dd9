// Rows of prompts: which prompts have rows in a step, and how many.
#include <algorithm>

#include "base/fail_point.h"
#include "coordinator/steps/scheduler.h"

namespace tutti::coordinator {

// The rows of this step that generating sequences leave for prompts. None is kept while no prompt
// wants one, or while there are enough anyway. A step of few rows keeps one only every few steps.
int32_t Scheduler::RowsForPrompts() {
  const int32_t rows = std::min(options_.max_batch_tokens, kStepSequencesMax);
  const int32_t generating = std::min(Share(), one_behind_.size());
  const bool enough = rows - generating >= (rows + kRowsPerPromptRow - 1) / kRowsPerPromptRow;
  if (enough || TUTTI_FAIL_POINT("coordinator.starve_prompts")) return 0;
  if (backlog_.behind().empty() && !FindNewcomer().has_value()) return 0;
  prompt_credit_ += rows;
  const int32_t kept = prompt_credit_ / kRowsPerPromptRow;
  prompt_credit_ %= kRowsPerPromptRow;
  return kept;
}

// On one stage a prompt that comes first has all rows, and the next begins when it has none left to
// want. Stages would wait for each other with that where little is to be computed: it is divided
// over as many steps as there are stages.
int32_t Scheduler::ChunkTokens() const {
  const int32_t rows = options_.max_batch_tokens;
  if (options_.chunk_tokens > 0) return options_.chunk_tokens;
  if (num_stages_ == 1) return rows;
  const int64_t even = (backlog_.tokens() + num_stages_ - 1) / num_stages_;
  return static_cast<int32_t>(std::clamp<int64_t>(even, std::min(rows, kEvenChunkTokensMin), rows));
}

void Scheduler::ContinuePrompts() {
  if (backlog_.behind().empty() && backlog_.waiting().empty()) return;
  scratch_.chunk = ChunkTokens();
  if (time_.IsWanted()) BeginTiming();
  if (!backlog_.behind().empty()) {
    const Sequence& first = *backlog_.behind().begin()->second;
    AdmitWaiting(/*before_class=*/first.request.priority);
    if (!backlog_.behind().empty()) GiveShortFirst();
    for (const auto& [key, sequence] : backlog_.behind()) {
      if (is_full()) break;
      const auto& early = scratch_.early;
      if (std::find(early.begin(), early.end(), sequence) == early.end()) {
        GiveRows(sequence, scratch_.budget);
      }
    }
  }
  AdmitWaiting();
}

// The first prompt would take all rows, and go on doing so: one in kRowsPerPromptRow goes to one
// that is much shorter, whether it runs or waits for its first row.
void Scheduler::GiveShortFirst() {
  const Sequence& first = *backlog_.behind().begin()->second;
  const int32_t most = std::min({first.behind(), scratch_.chunk, scratch_.budget});
  const int32_t rows = time_.RowsInTime(first.stay.planned, first.behind(), most);
  if (is_full() || rows == first.behind() || (rows == most && most < scratch_.budget)) return;
  const int32_t share = rows / kRowsPerPromptRow;
  if (share == 0) return;
  const auto is_short = [&first](int64_t tokens) {
    return tokens * kRowsPerPromptRow <= first.behind();
  };
  Sequence* shortest = nullptr;
  for (const auto& [key, one] : backlog_.behind()) {
    if (key.first != first.request.priority) break;
    if (shortest == nullptr || one->behind() < shortest->behind()) shortest = one;
  }
  if (is_short(shortest->behind())) {
    const auto& early = scratch_.early;
    if (std::find(early.begin(), early.end(), shortest) != early.end()) return;
    GiveRows(shortest, share);
    scratch_.early.push_back(shortest);
    return;
  }
  if (scratch_.preempted || backlog_.waiting().empty()) return;
  std::optional<Newcomer> newcomer = FindNewcomer();
  if (!newcomer.has_value()) return;
  const Sequence& next = *newcomer->sequence;
  const int64_t cached = static_cast<int64_t>(newcomer->room.prefix.size()) * options_.block_size;
  if (next.request.priority != first.request.priority || !is_short(next.total() - cached)) return;
  if (!PutIntoPlan(next)) return;
  scratch_.early.push_back(newcomer->sequence);
  Admit(*std::move(newcomer), share);
}

// Newcomers of a class before one only, or all, while there is time for a row of theirs.
void Scheduler::AdmitWaiting(std::optional<int32_t> before_class) {
  while (!scratch_.preempted && !is_full() && !backlog_.waiting().empty()) {
    // By class first.
    const int32_t highest = backlog_.waiting().begin()->second->request.priority;
    if (before_class.has_value() && highest >= *before_class) return;
    std::optional<Newcomer> newcomer = FindNewcomer();
    if (!newcomer.has_value()) return;
    const Sequence& sequence = *newcomer->sequence;
    if (before_class.has_value() && sequence.request.priority >= *before_class) return;
    // Only now: time is not what whoever lacks blocks or a place waits for.
    if (time_.RowsInTime(/*first=*/0, /*behind=*/2, /*most=*/1) == 0) {
      scratch_.out_of_time = true;
      return;
    }
    if (!PutIntoPlan(sequence)) return;
    if (before_class.has_value()) scratch_.early.push_back(newcomer->sequence);
    Admit(*std::move(newcomer), scratch_.budget);
  }
}

// False: this step's plan has no room left for a newcomer. Its turn is in the next one; nobody
// overtakes it.
bool Scheduler::PutIntoPlan(const Sequence& sequence) {
  scratch_.new_bytes -= NewSequenceBytes(plan_size_, sequence.total(), sequence.request.sampling);
  scratch_.new_fields -= NewSequenceFields(sequence.request.sampling);
  const bool fits = scratch_.new_bytes >= 0 && scratch_.new_fields >= 0;
  if (!fits) scratch_.out_of_plan = true;
  return fits || TUTTI_FAIL_POINT("coordinator.large_plans");
}

// The rows that it may have in one step, where it is tried alone.
int32_t Scheduler::RowsMax(const Sequence& sequence) const {
  if (alone_ != &sequence) return sequence.behind();
  return sequence.suspicion.RowsInTrial(sequence.stay.planned);
}

void Scheduler::GiveRows(Sequence* sequence, int32_t rows_max) {
  const int32_t most =
      std::min({sequence->behind(), scratch_.chunk, scratch_.budget, rows_max, RowsMax(*sequence)});
  const int32_t count = time_.RowsInTime(sequence->stay.planned, sequence->behind(), most);
  if (count < most) scratch_.out_of_time = true;
  if (count > 0) SchedulePrompt(sequence, count);
}

void Scheduler::SchedulePrompt(Sequence* sequence, int32_t count) {
  Schedule(sequence, count);
  time_.AddPrompt(sequence->stay.planned, count, /*ends=*/count == sequence->behind());
}

void Scheduler::BeginTiming() {
  time_.Begin();
  for (const Row& row : scratch_.rows) {
    time_.Add(row.sequence->stay.planned, row.count, row.count == row.sequence->behind());
  }
  if (Generating() > 0) time_.BindForGenerating(/*empty=*/scratch_.rows.empty());
}

}  // namespace tutti::coordinator
