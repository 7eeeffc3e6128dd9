// The rules by which a draft model goes on behind what a step has drawn: which of its rows are
// computed, and what it is believed of (docs/decisions/0088-drafts.md).
//
// Of each sequence the draft model computes the tokens that a plan has told, and behind them those
// that the step has drawn; behind these it draws, by the same rule and the same randomness as the
// target would, and computes what it has drawn. So it guesses right wherever its row draws what the
// target's does, at any temperature. Its K/V lies in the blocks of the sequence, in memory of its
// own.
//
// Rows are computed once, and once more where the text has become another: where a guess was wrong.
// Behind a cached prefix they are computed, too, unless the prefix's blocks are known to have them
// (drafted_blocks.h); what lies there has the same bits. Nobody waits for a draft model that has
// much to catch up with, which only it knows: it computes as many rows in a step as the step has of
// its sequences and kDraftRowsBehindMax more, in one batch, and guesses nothing of sequences that
// it has not caught up with.
//
// What it says changes no token, so whatever it cannot do it leaves. Only an error of its runner,
// which is one of the device, is more than that.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "proto/peer_messages.h"
#include "worker/batch.h"
#include "worker/drafted_blocks.h"
#include "worker/sequence_table.h"
#include "worker/stage_runner.h"

namespace tutti::worker {

class Drafter {
 public:
  // Of the pipeline.
  struct Limits {
    int32_t vocab_size = 0;  // of the target: other tokens are no guesses
    int32_t block_size = 0;
    int32_t num_blocks = 0;
    int32_t max_batch_tokens = 0;
    int32_t max_model_len = 0;
  };
  // Called when a pass of the draft model begins.
  using BeginCallback = std::function<void(const StageRunner::StepWork& work)>;

  // REQUIRES: the model's runner is not null and outlives this; it takes batches of
  // max_batch_tokens rows.
  Drafter(const StageRunner::DraftModel& model, const Limits& limits);

  // Forgets a sequence; it may begin again.
  void Forget(SequenceId id) { texts_.erase(id.value()); }
  // All of them: an epoch is over. What the blocks hold stays.
  void ForgetAll();

  // Whether a step has sequences to go on with.
  static bool GoesOn(const v1::StepPlan& plan);

  // Goes on with the sequences of a step whose plan has `drafts`.
  //   sampled  as StageRunner::Run fills it, one entry for each of the step's sample rows
  // Changes nothing of the table. Its device is through when this returns. Errors are the runner's.
  // REQUIRES: `table` has applied `plan`, which is valid
  absl::Status GoOn(const v1::StepPlan& plan, const SequenceTable& table,
                    std::span<const v1::SampledToken> sampled, const ProgressCallback& progress,
                    const BeginCallback& begin);

  // Of the last GoOn: what was drawn, and the times that all weights were read for it.
  void AddDrafted(v1::StepResult* result) const;
  int32_t passes() const { return passes_; }

 private:
  // A sequence as the draft model has it.
  struct Text {
    // Its tokens, of which the last may be guesses, and what they are drawn with. No blocks.
    SequenceState state;
    int32_t settled = 0;         // tokens that a plan has told: they stay
    int32_t computed = 0;        // tokens whose rows are computed
    std::vector<Hash128> names;  // of its blocks
    // It can be gone on with no more: a token is not of the draft model's vocabulary, or a row is
    // not of numbers.
    bool given_up = false;
  };
  // A sequence in a step.
  struct Going {
    Text* text = nullptr;
    const SequenceState* sequence = nullptr;
    int32_t known = 0;    // tokens of the text that are no guesses of this step
    int32_t end = 0;      // tokens that have room: slots and positions
    int32_t missing = 0;  // rows, of those
    int32_t drafts = 0;   // tokens to draw still
    int32_t rows = 0;     // in the next pass
    bool draws = false;   // behind the last of these rows
  };

  Text& TextOf(const SequenceState& sequence);
  void Add(const v1::ScheduledSequence& scheduled, const SequenceState& sequence,
           std::span<const v1::SampledToken> drawn);
  DraftedBlocks::Text InBlocks(const Going& going) const;
  void Follow(const SequenceState& sequence, int32_t known, std::span<const v1::SampledToken> drawn,
              Text* text) const;
  bool Put(TokenId id, Text* text) const;
  void CutTo(int32_t tokens, Text* text) const;
  void ShareRows(int64_t rows_of_step);
  void BuildBatch(uint64_t step);
  absl::Status RunPass(uint64_t step, const ProgressCallback& progress, const BeginCallback& begin);
  void Take(TokenId drawn, Going* going) const;

  StageRunner* const model_;
  const int32_t max_model_len_;
  const Limits limits_;
  std::unordered_map<uint64_t, Text> texts_;
  DraftedBlocks blocks_;
  int32_t passes_ = 0;
  // Kept from step to step for their memory:
  std::vector<Going> going_;
  Batch batch_;
  std::vector<v1::SampledToken> sampled_;
};

}  // namespace tutti::worker
