// Guesses: which sequences have some in a step, and how many.
#include <algorithm>
#include <limits>

#include "base/fail_point.h"
#include "coordinator/limits.h"
#include "coordinator/steps/scheduler.h"

namespace tutti::coordinator {

// Nothing is guessed where anybody has fewer rows, blocks or bytes of the plan than he wants.
bool Scheduler::MayGuess() const {
  return alone_ == nullptr && scratch_.budget > 0 && !scratch_.preempted && !scratch_.out_of_time &&
         !scratch_.out_of_plan && scratch_.rows.size() <= kGuessingSequencesMax;
}

// What a sequence may have, but for time: at most all of its output but the last token, which comes
// of the last guess. Drafts are those that were asked for.
GuessSources::Most Scheduler::GuessesWanted(const Row& row) const {
  const Sequence& sequence = *row.sequence;
  if (row.count != 1 || sequence.behind() != 1 || sequence.stay.late > 0) return {};
  if (!sequence.suspicion.empty()) return {};
  const Request& request = sequence.request;
  const int32_t room =
      std::min({kGuessesMax, guesses_in_plan_, request.max_tokens - sequence.output_tokens() - 1});
  const int32_t looked_up = std::min(room, request.guesses_max.value_or(options_.guesses_max));
  return {looked_up, looked_up, room};
}

void Scheduler::Guess() {
  if (!MayGuess()) return;
  guess_sources_.BeginStep();
  for (Row& row : scratch_.rows) {
    row.first_guess = scratch_.guesses.size();
    const std::optional<GuessSources::Found> found =
        guess_sources_.Guess(row.sequence, GuessesWanted(row), &scratch_.guesses);
    if (!found.has_value()) continue;
    row.origin = found->origin;
    row.repeats = found->repeats;
    CutGuesses(&row);
  }
  if (scratch_.guesses.empty()) return;
  const int32_t most = GuessesInTime();
  for (Row& row : scratch_.rows) {
    if (most == 0 && row.guesses > 0) row.sequence->PaceOf(row.origin).OnTooLong();
    KeepGuesses(most, &row);
  }
}

// Behind a token that ends the output nothing comes.
void Scheduler::CutGuesses(Row* row) {
  const std::vector<TokenId>& stop = row->sequence->request.stop_token_ids;
  const auto begin = scratch_.guesses.begin() + static_cast<int64_t>(row->first_guess);
  const auto end = std::find_if(begin, scratch_.guesses.end(), [&](TokenId id) {
    return std::binary_search(stop.begin(), stop.end(), id);
  });
  if (!TUTTI_FAIL_POINT("coordinator.guess_beyond_stop")) {
    scratch_.guesses.erase(end, scratch_.guesses.end());
  }
  row->guesses = static_cast<int32_t>(scratch_.guesses.size() - row->first_guess);
}

// The time that guesses may make of a step of so many seconds, whatever they bring. `all`: none of
// its sequences waits for those of others.
double Scheduler::LongestGuessed(double seconds, bool all) const {
  const double target = Seconds(options_.itl_target);
  if (target == 0) return std::numeric_limits<double>::infinity();
  return std::max(target, all ? kGuessedStep * seconds : seconds);
}

// As many guesses for each sequence as lengthen the step by less than they are likely to bring to
// any that has some, and hardly at all for those that have none.
int32_t Scheduler::GuessesInTime() const {
  if (time_.times() == nullptr) return kGuessesMax;
  const auto seconds = [this](int32_t most) {
    LoadSum load;
    for (const Row& row : scratch_.rows) {
      const int32_t guesses = std::min(most, row.guesses);
      const bool sample = row.count == row.sequence->behind();
      load.Add(row.sequence->stay.planned, row.count + guesses, sample ? 1 + guesses : 0);
    }
    return time_.times()->Predict(load.load());
  };
  const std::optional<double> without = seconds(0);
  if (!without.has_value()) return 0;
  for (int32_t most = kGuessesMax; most > 0; --most) {
    double worth = kGuessesMax;
    bool all = true;
    for (const Row& row : scratch_.rows) {
      all &= row.guesses > 0;
      if (row.guesses == 0) continue;
      const GuessPace& pace = row.sequence->PaceOf(row.origin);
      worth = std::min(worth, pace.Expected(std::min(most, row.guesses), row.repeats));
    }
    worth *= kGuessesWorth;
    // Whoever comes next waits for this step.
    if (others_lately_) worth = std::min(worth, kQuickStep - 1);
    if (!all) worth = std::min(worth, options_.guesses_stretch);
    const double limit = std::min(*without * (1 + worth), LongestGuessed(*without, all));
    if (*seconds(most) <= limit) return most;
  }
  return 0;
}

// What there is room for: rows, bytes of the plan, and blocks that nobody else is about to need.
void Scheduler::KeepGuesses(int32_t most, Row* row) {
  row->guesses = std::min({row->guesses, most, scratch_.budget});
  if (row->guesses == 0) return;
  if (GuessBytes(plan_size_, row->guesses) > scratch_.new_bytes) {
    row->guesses = 0;
    return;
  }
  Sequence* const sequence = row->sequence;
  const int64_t known = int64_t{sequence->stay.planned} + row->count;
  const int32_t blocks = cache_.Missing(*sequence, known + row->guesses);
  if (blocks > 0 && cache_.available() - running() >= blocks) {
    cache_.Grow(blocks, sequence);
  } else if (blocks > 0) {
    const auto slots =
        static_cast<int64_t>(sequence->stay.blocks.size()) * options_.block_size - known;
    row->guesses = static_cast<int32_t>(std::min<int64_t>(row->guesses, slots));
  }
  scratch_.budget -= row->guesses;
  scratch_.new_bytes -= GuessBytes(plan_size_, row->guesses);
}

}  // namespace tutti::coordinator
