// Drafts: behind which sequences of a step the draft model of the last stage goes on, and how far
// (docs/decisions/0088). Its words are guesses of the step after (guess_sources.h).
#include <algorithm>

#include "coordinator/limits.h"
#include "coordinator/steps/scheduler.h"

namespace tutti::coordinator {
namespace {

// Of an output, without this step's token and the last, which comes of the last draft.
int32_t OutputLeft(const Sequence& sequence) {
  return sequence.request.max_tokens - sequence.output_tokens() - 2;
}

}  // namespace

// Nobody waits for drafts where he has less than he wants, or where many run: their rows together
// read the weights for many tokens anyway. Where those that run fill a step with the tokens that
// are due, none is left for guesses. The plan has a field more for each row.
bool Scheduler::MayDraft() const {
  return options_.draft && alone_ == nullptr && !scratch_.preempted && !scratch_.out_of_time &&
         !scratch_.out_of_plan && running_.size() <= kGuessingSequencesMax &&
         running() < options_.max_batch_tokens &&
         scratch_.new_fields >= static_cast<int64_t>(scratch_.rows.size());
}

// Tokens that a sequence may be drafted in a step, by its request.
int32_t Scheduler::DraftsAllowed(const Sequence& sequence) const {
  if (!sequence.suspicion.empty()) return 0;
  return std::min(
      {sequence.request.drafts_max.value_or(options_.drafts_max), kGuessesMax, guesses_in_plan_});
}

// As many as it may want for the next step, but for time: none of one whose text is likely to say
// what comes, and at most all that is left of its output.
int32_t Scheduler::DraftsWanted(const Row& row) const {
  Sequence* const sequence = row.sequence;
  if (row.count != sequence->behind() || sequence->stay.late > 0) return 0;
  const bool looked_up = row.guesses > 0 && row.origin != GuessOrigin::kDraft;
  if (looked_up && sequence->PaceOf(row.origin).IsLikely()) return 0;
  const int32_t most = std::min(DraftsAllowed(*sequence), OutputLeft(*sequence));
  return most <= 0 ? 0 : std::min(most, sequence->PaceOf(GuessOrigin::kDraft).Next());
}

// Rows that the draft model computes behind the step before it says anything of the sequence, such
// as those of a prompt. 0: hardly any, of tokens that it has said itself.
int32_t Scheduler::DraftRowsToRead(const Row& row) const {
  const Sequence::Stay& stay = row.sequence->stay;
  const int32_t rows = stay.planned + row.count - stay.draft_read;
  return rows <= kGuessesMax + 1 ? 0 : rows;
}

// A draft model that has much to read behind a step, such as a prompt that was computed beside
// others, lengthens it by more than a pass: only where nobody waits who has nothing of it, and much
// is left to say. `read`: rows, with those of the sequences before it in the step.
bool Scheduler::MayCatchUp(const Row& row, bool all_may, int32_t read) const {
  if (!all_may) return read <= kDraftsBehindMax;
  const Sequence& sequence = *row.sequence;
  const int32_t missing = sequence.stay.planned - sequence.stay.draft_read;
  return missing <= kDraftsBehindMax || missing <= int64_t{kDraftRowsWorth} * OutputLeft(sequence);
}

// A prompt is read by both models, piece by piece, where all of the step may have drafts. The row
// of one token that nothing is asked behind can be made up for.
bool Scheduler::KeepsUp(const Row& row, bool all_may) const {
  return all_may && row.count > 1 && OutputLeft(*row.sequence) > 0 &&
         MayCatchUp(row, all_may, /*read=*/0) &&
         !row.sequence->PaceOf(GuessOrigin::kDraft).is_pausing();
}

void Scheduler::AskForDrafts() {
  if (!MayDraft()) return;
  const bool all_may = std::all_of(scratch_.rows.begin(), scratch_.rows.end(), [&](const Row& row) {
    return DraftsAllowed(*row.sequence) > 0;
  });
  int32_t read = 0;
  for (Row& row : scratch_.rows) {
    const int32_t more = read + DraftRowsToRead(row);
    row.drafts = MayCatchUp(row, all_may, more) ? DraftsWanted(row) : 0;
    if (*row.drafts > 0) read = more;
  }
  const int32_t most = DraftsInTime();
  for (Row& row : scratch_.rows) {
    if (*row.drafts > 0) {
      if (most == 0) row.sequence->PaceOf(GuessOrigin::kDraft).OnTooLong();
      KeepDrafts(most, &row);
    }
    if (row.drafts == 0 && !KeepsUp(row, all_may)) row.drafts.reset();
  }
}

// As many drafts for each sequence as bring most tokens in a second, and hardly any time for those
// of this step that have none. Where the time of a pass is not known, a few, to learn it.
int32_t Scheduler::DraftsInTime() const {
  int32_t most = 0;
  bool all = true;
  for (const Row& row : scratch_.rows) {
    most = std::max(most, *row.drafts);
    all &= *row.drafts > 0;
  }
  const StepTimes* const times = time_.times();
  if (most == 0 || times == nullptr) return most;
  const std::optional<double> pass = times->draft_pass_seconds();
  if (!pass.has_value()) return std::min(most, all ? kDraftsToLearn : 1);
  // Of this step, which ends when the last draft is there.
  LoadSum load;
  for (const Row& row : scratch_.rows) {
    const bool sample = row.count == row.sequence->behind();
    load.Add(row.sequence->stay.planned, row.count + row.guesses, sample ? 1 + row.guesses : 0);
  }
  const std::optional<double> now = times->Predict(load.load());
  if (!now.has_value()) return 0;
  double limit = LongestGuessed(*now, all) - *now;
  // Whoever comes next waits for this step.
  if (others_lately_) limit = std::min(limit, *now * (kQuickStep - 1));
  if (!all) limit = std::min(limit, *now * options_.guesses_stretch);
  // And of the next, which verifies them.
  const double longest = LongestGuessed(VerifiedIn(0), all);
  int32_t best = 0;
  double best_rate = 0;
  for (int32_t drafts = 0; drafts <= most && drafts * *pass <= limit; ++drafts) {
    const double seconds = VerifiedIn(drafts);
    if (seconds > longest) break;
    const double all_time = seconds + times->way_seconds() + drafts * *pass;
    const double rate = DraftedTokens(drafts) / all_time;
    if (rate > best_rate) {
      best = drafts;
      best_rate = rate;
    }
  }
  return best;
}

// The time of a step of the sequences that are asked, with so many drafts for each as guesses.
double Scheduler::VerifiedIn(int32_t drafts) const {
  LoadSum load;
  for (const Row& row : scratch_.rows) {
    const int32_t rows = 1 + std::min(drafts, *row.drafts);
    if (*row.drafts > 0) load.Add(row.sequence->total(), rows, rows);
  }
  return time_.times()->Predict(load.load()).value_or(0);
}

// The tokens that such a step is likely to bring.
double Scheduler::DraftedTokens(int32_t drafts) const {
  double tokens = 0;
  for (const Row& row : scratch_.rows) {
    if (*row.drafts == 0) continue;
    const GuessPace& pace = row.sequence->PaceOf(GuessOrigin::kDraft);
    tokens += 1 + kGuessesWorth * pace.Expected(std::min(drafts, *row.drafts));
  }
  return tokens;
}

// What there is room for: the draft model writes K/V of all but the last token that it says, into
// blocks that nobody else is about to need.
void Scheduler::KeepDrafts(int32_t most, Row* row) {
  Sequence* const sequence = row->sequence;
  int32_t drafts = std::min(*row->drafts, most);
  const int64_t known = int64_t{sequence->stay.planned} + row->count + row->guesses;
  const int64_t wanted = std::min(known + drafts, sequence->kv_slots_max());
  const int32_t blocks = drafts > 0 ? cache_.Missing(*sequence, wanted) : 0;
  const int64_t bytes = int64_t{blocks} * kVarint32BytesMax;
  if (blocks > 0 && cache_.available() - running() >= blocks && bytes <= scratch_.new_bytes) {
    cache_.Grow(blocks, sequence);
    scratch_.new_bytes -= bytes;
  } else if (blocks > 0) {
    const auto slots = static_cast<int64_t>(sequence->stay.blocks.size()) * options_.block_size;
    drafts = static_cast<int32_t>(std::clamp<int64_t>(slots - known, 0, drafts));
  }
  row->drafts = drafts;
}

}  // namespace tutti::coordinator
