// The results of steps: what they change for the sequences that had rows.
#include "absl/container/inlined_vector.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"
#include "coordinator/steps/fetch_ahead.h"
#include "coordinator/steps/scheduler.h"

namespace tutti::coordinator {
// As if all guesses had been right: a bug that tests plant.
void Scheduler::PublishRejected(const StepEntry& entry, Sequence* sequence) {
  const std::vector<TokenId> drawn = sequence->tokens;
  const int32_t computed = sequence->stay.computed;
  const auto guesses = std::span(steps_.oldest().guesses)
                           .subspan(entry.first_guess, static_cast<size_t>(entry.guesses));
  sequence->tokens.resize(static_cast<size_t>(entry.end));
  sequence->tokens.insert(sequence->tokens.end(), guesses.begin(), guesses.end());
  sequence->stay.computed = entry.end + entry.guesses;
  cache_.Publish(sequence);
  sequence->tokens = drawn;
  sequence->stay.computed = computed;
}

void Scheduler::CountGuesses(const StepEntry& entry, int32_t right, Sequence* sequence) {
  guessed_.tokens += static_cast<uint64_t>(entry.guesses);
  Guessed::Source& source = guessed_.sources[IndexOf(entry.origin)];
  source.tokens += static_cast<uint64_t>(entry.guesses);
  source.right += static_cast<uint64_t>(right);
  sequence->guessed += entry.guesses;
  sequence->guessed_right += right;
  sequence->PaceOf(entry.origin).OnVerified(entry.guesses, right);
}

// Its last row does not count: it is written again. Guesses behind it were computed and looked at
// by nobody: they brought nothing, which the pace should know.
void Scheduler::PutOff(const StepEntry& entry, Sequence* sequence) {
  if (entry.guesses > 0) CountGuesses(entry, 0, sequence);
  sequence->stay.computed = entry.end - (TUTTI_FAIL_POINT("coordinator.publish_late") ? 0 : 1);
  // Those before it were computed without a loss.
  if (!sequence->suspicion.empty()) sequence->suspicion.OnComputed(entry.end - 1);
  cache_.Publish(sequence);
  backlog_.Advance(sequence, -1);
  if (!TUTTI_FAIL_POINT("coordinator.forget_late")) late_.Add(sequence, steps_.last_id());
}

// The entry's tokens are computed, and what was guessed of those that follow. `tokens`: of the
// result, which was found to be one that can be. `late`: the one behind them could not be drawn
// yet.
void Scheduler::CommitTokens(const StepEntry& entry, std::span<v1::SampledToken* const> tokens,
                             bool late, Sequence* sequence, std::vector<Sampled>* sampled) {
  if (late && tokens.empty()) return PutOff(entry, sequence);
  if (entry.end == sequence->total()) filling_.erase(sequence->stay.id);
  const StepUnderWay& step = steps_.oldest();
  int32_t right = 0;
  for (v1::SampledToken* const token : tokens) {
    if (right < entry.guesses && token->token() == step.guesses[entry.first_guess + right]) {
      ++guessed_.right[right++];
    }
    sampled->push_back({.sequence = sequence, .token = token, .index = sequence->output_tokens()});
    sequence->tokens.push_back(token->token());
  }
  if (!tokens.empty()) sequence->stay.late = 0;
  // The row of the last guess is computed once more where the token behind it is late.
  sequence->stay.computed = entry.end + right - (late ? 1 : 0);
  if (entry.guesses > 0) {
    sequence->stay.planned = sequence->stay.computed;
    ++guessed_.times;
    CountGuesses(entry, right, sequence);
    if (right < entry.guesses && TUTTI_FAIL_POINT("coordinator.guess_border")) {
      ++sequence->stay.planned;
    }
  }
  if (!sequence->suspicion.empty()) sequence->suspicion.OnComputed(sequence->stay.computed);
  if (right < entry.guesses && TUTTI_FAIL_POINT("coordinator.publish_rejected")) {
    PublishRejected(entry, sequence);
  }
  cache_.Publish(sequence);
  if (!entry.sample) return;
  // All that was guessed right brings another, unless it could not be drawn.
  if (static_cast<size_t>(right) == tokens.size() && !late) {
    sampled->push_back({.sequence = sequence, .index = sequence->output_tokens()});
    return;
  }
  Queue(sequence);
}

// Drafts as tokens that nobody has verified: a bug that tests plant.
void Scheduler::BelieveDrafts(const v1::DraftedTokens& drafted, Sequence* sequence,
                              v1::StepResult* result, std::vector<Sampled>* sampled) {
  Unqueue(sequence);
  for (const TokenId token : drafted.tokens()) {
    v1::SampledToken* const believed = result->add_sampled();
    believed->set_position(sequence->total());
    believed->set_token(token);
    sampled->push_back(
        {.sequence = sequence, .token = believed, .index = sequence->output_tokens()});
    sequence->tokens.push_back(token);
  }
  Queue(sequence);
}

// Of those that go on; for others they come to nothing.
void Scheduler::TakeDrafts(v1::StepResult* result, std::vector<Sampled>* sampled) {
  for (const v1::DraftedTokens& drafted : result->drafted()) {
    Sequence* const sequence = FindRunning(SequenceId(drafted.sequence()));
    if (sequence == nullptr) continue;
    if (TUTTI_FAIL_POINT("coordinator.drafts_unverified")) {
      BelieveDrafts(drafted, sequence, result, sampled);
      continue;
    }
    sequence->stay.drafts.assign(drafted.tokens().begin(), drafted.tokens().end());
    if (TUTTI_FAIL_POINT("coordinator.shift_drafts") && drafted.tokens_size() > 0) {
      sequence->stay.drafts.erase(sequence->stay.drafts.begin());
    }
  }
}

void Scheduler::Commit(v1::StepResult* result, std::vector<Sampled>* sampled) {
  if (const auto& rebuild = steps_.oldest().rebuild; rebuild.has_value()) {
    rebuilds_.Commit(*rebuild);
    for (const SequenceId id : rebuild->sequences) {
      if (Sequence* const one = FindRunning(id)) --one->stay.rebuilds;
    }
  }
  const std::vector<StepEntry>& entries = steps_.oldest().entries;
  committed_.clear();
  for (const StepEntry& entry : entries) committed_.push_back(FindRunning(entry.sequence));
  const auto at = [&](size_t i) { return i < committed_.size() ? committed_[i] : nullptr; };
  for (size_t i = 0; i < kFetchAhead; ++i) FetchAhead(at(i));
  int next = 0, next_late = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    FetchAhead(at(i + kFetchAhead));
    FetchContents(at(i + kFetchAhead / 2));
    const StepEntry& entry = entries[i];
    absl::InlinedVector<v1::SampledToken*, kGuessesMax + 1> tokens;
    while (entry.sample && next < result->sampled_size() &&
           result->sampled(next).sequence() == entry.sequence.value()) {
      tokens.push_back(result->mutable_sampled(next++));
    }
    const bool late = entry.sample && next_late < result->late_size() &&
                      result->late(next_late) == entry.sequence.value();
    next_late += late ? 1 : 0;
    if (committed_[i] == nullptr) continue;  // left meanwhile
    CommitTokens(entry, tokens, late, committed_[i], sampled);
  }
  TakeDrafts(result, sampled);
  steps_.Pop();
}

}  // namespace tutti::coordinator
