// Checks every step's plan that the engine sends: a pipeline must be able to run it, and it must
// honour the limits.
//
// It keeps its own account of the sequences that the workers know, their blocks and the content of
// the blocks, from the plans alone: a sequence that begins with a cached prefix must get blocks
// that hold just that, and a block that several sequences hold is never written.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/peer_messages.h"
#include "tests/support/sim_options.h"

namespace tutti::tests {

class PlanAuditor {
 public:
  explicit PlanAuditor(const SimOptions* options) : options_(options) {}

  // Contents of blocks may outlive an epoch; where they should not have, the tokens will be wrong.
  void BeginEpoch(int32_t num_blocks);
  // The mistake in the plan; empty: none.
  std::string Check(const v1::StepPlan& plan);

  // A result of the epoch, in which a draft model may say what follows.
  void TakeDrafts(const v1::StepResult& result);

  uint64_t plans() const { return plans_; }
  uint64_t rows() const { return rows_; }
  int64_t largest_bytes() const { return largest_bytes_; }
  uint64_t guesses() const { return guesses_; }
  // As later plans say.
  uint64_t right_guesses() const { return right_guesses_; }

 private:
  struct Known {
    std::vector<TokenId> tokens;
    int32_t computed = 0;
    int32_t cached = 0;  // where it began
    std::vector<int32_t> blocks;
    std::vector<TokenId> guesses;  // of its last step
    v1::DraftedTokens drafted;     // behind its last step
  };
  struct Block {
    int32_t holders = 0;
    uint64_t content = 0;  // a digest of all tokens up to its end; 0: not full
    uint64_t guessed = 0;  // the same where some of its tokens are guesses, which may be right
  };

  std::string CheckPrompts(const v1::StepPlan& plan);
  std::string CheckRebuild(const v1::ScheduledSequence& scheduled);
  std::string CheckDrafts(const v1::ScheduledSequence& scheduled, Known* known) const;
  std::string TakeGuesses(const v1::ScheduledSequence& scheduled, Known* known);
  std::string CheckScheduled(const v1::ScheduledSequence& scheduled);
  std::string AddBlock(int32_t block, Known* known);
  std::string Write(int32_t end, const Known& known);
  void WriteGuesses(const Known& known);
  uint64_t Content(const std::vector<TokenId>& tokens, size_t block) const;
  // Whether a block holds the tokens of the sequence's block.
  bool Holds(const Block& block, const Known& known, size_t index) const;

  const SimOptions* const options_;
  uint64_t last_step_ = 0;
  std::map<uint64_t, Known> known_;
  std::vector<Block> blocks_;
  uint64_t plans_ = 0;
  uint64_t rows_ = 0;
  int64_t largest_bytes_ = 0;
  uint64_t guesses_ = 0;
  uint64_t right_guesses_ = 0;
  // Plans in a row, without a row of a prompt although one was far behind.
  int32_t plans_without_prompt_ = 0;
};

}  // namespace tutti::tests
