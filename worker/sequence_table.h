// The worker's copy of the sequences of its pipeline, kept up to date by the differences in step
// plans.
//
// Every plan also gives the expected result (token and block counts, first position); a plan that
// contradicts the copy, itself or the shard's limits is refused, because computing on would give a
// client a wrong answer.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/container/btree_map.h"
#include "base/ids.h"
#include "base/status.h"
#include "proto/peer_messages.h"
#include "worker/sampling/grammar_pool.h"

namespace tutti::worker {

// The number of times that a token stands in a sequence; penalties are computed from it.
struct TokenCount {
  bool in_prompt = false;
  int32_t in_output = 0;
};

struct SequenceState {
  SequenceId id;
  std::vector<TokenId> tokens;  // all tokens known so far
  int32_t prompt_tokens = 0;    // how many of them are the prompt
  int32_t cached = 0;           // how many lay in its blocks when it began
  std::vector<int32_t> blocks;  // block of slot p: blocks[p / block_size]
  // Tokens whose K/V is written or will be by a step already applied. A cached prefix is where a
  // sequence begins.
  int32_t computed = 0;
  // What its last step computed behind them: which of these are its tokens, the next plan says.
  std::vector<TokenId> guesses;
  std::optional<uint64_t> last_step;  // that it was scheduled in; the probe is step 0
  v1::SequenceSampling sampling;
  // Where its text is bound by a grammar, on a stage that samples; `sampling` no longer has it.
  std::shared_ptr<GrammarAnswer> grammar;
  // Counts of every token in `tokens`; kept only for sequences that have a penalty. In the order of
  // ids, so that whoever applies them goes through a row of logits once.
  absl::btree_map<TokenId, TokenCount> counts;

  // One token more, and one less.
  void Append(TokenId id);
  void TakeBack();

  std::span<const TokenId> output() const {
    return std::span(tokens).subspan(static_cast<size_t>(prompt_tokens));
  }
  // A field left at 0 is off, also where the neutral value is 1.
  bool has_penalties() const {
    return (sampling.repetition_penalty() != 0 && sampling.repetition_penalty() != 1) ||
           sampling.presence_penalty() != 0 || sampling.frequency_penalty() != 0;
  }
};

struct SequenceLimits {
  int32_t vocab_size = 0;
  int32_t block_size = 0;
  int32_t num_blocks = 0;
  int32_t max_batch_tokens = 0;
  int32_t max_step_sequences = 0;
  int32_t max_known_sequences = 0;
  int32_t max_model_len = 0;
  // Whether a plan may ask the draft model. Plans are told to all workers of a pipeline: the one
  // that could have it knows whether it has.
  bool takes_drafts = true;
};

class SequenceTable {
 public:
  // `grammars` makes the masks of the sequences, and outlives the table; null: this stage does not
  // sample.
  explicit SequenceTable(const SequenceLimits& limits, GrammarPool* grammars = nullptr)
      : limits_(limits), grammars_(grammars) {}

  // Applies a plan's differences: forgets the finished, adds the new, then advances the scheduled
  // ones. Errors (INVALID_ARGUMENT: impossible in itself; FAILED_PRECONDITION: it contradicts this
  // copy) name the sequence and both numbers; the table may then be half advanced and must not be
  // used again.
  absl::Status Apply(const v1::StepPlan& plan);

  // Null when unknown. The pointer stays good until the sequence is finished.
  const SequenceState* Find(SequenceId id) const;
  // For whoever goes on with it in a step and takes that back (verification.h).
  SequenceState* FindToGoOn(SequenceId id);
  size_t size() const { return sequences_.size(); }
  const SequenceLimits& limits() const { return limits_; }

 private:
  using Ids = google::protobuf::RepeatedField<int32_t>;

  absl::Status Add(const v1::NewSequence& added);
  absl::Status Advance(uint64_t step, const v1::ScheduledSequence& scheduled);
  absl::Status StepBack(const v1::ScheduledSequence& scheduled, SequenceState* state) const;
  absl::Status CheckRows(const v1::StepPlan& plan) const;
  absl::Status AppendTokens(const Ids& tokens, SequenceState* state) const;
  absl::Status TakeGuesses(const v1::ScheduledSequence& scheduled, SequenceState* state) const;
  absl::Status CheckEnd(const v1::ScheduledSequence& scheduled, const SequenceState& state) const;
  absl::Status CheckDrafts(const v1::ScheduledSequence& scheduled) const;
  absl::Status AppendBlocks(const Ids& blocks, SequenceState* state) const;

  const SequenceLimits limits_;
  GrammarPool* const grammars_;
  std::unordered_map<uint64_t, SequenceState> sequences_;  // found by id only, never walked
};

// Sampling parameters that cannot be computed with: INVALID_ARGUMENT naming the field and its
// value.
absl::Status ValidateSampling(const v1::SequenceSampling& sampling, int32_t vocab_size);

}  // namespace tutti::worker
