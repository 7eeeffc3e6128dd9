// The steps of one pipeline that are planned and not done, oldest first, and the results expected
// of each.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "coordinator/kv/lacking_blocks.h"
#include "coordinator/steps/guess_origin.h"
#include "proto/peer_messages.h"

namespace tutti::coordinator {

// One sequence's part of a step under way.
struct StepEntry {
  SequenceId sequence;
  int32_t end = 0;      // tokens of the sequence that are computed after the step
  bool sample = false;  // ... after which a token at that position is sampled
  // Guesses behind them, in StepUnderWay::guesses, and the first one's place there.
  int32_t guesses = 0;
  size_t first_guess = 0;
  GuessOrigin origin = GuessOrigin::kText;  // of the guesses
  int32_t drafts = 0;                       // tokens that the draft model was asked for behind them
};

struct StepUnderWay {
  StepId id;
  int32_t rows = 0;      // that all stages compute
  bool bounded = false;  // prompts wanted more than there was time for
  std::vector<StepEntry> entries;
  std::vector<TokenId> guesses;  // of all entries
  // The state of a rebuild, which has no entries.
  struct Rebuild {
    LackingBlocks::Part part;
    int32_t rows = 0;
    std::vector<BlockId> blocks;        // that are whole in the part's stages after the step
    std::vector<SequenceId> sequences;  // for which it is done
  };
  std::optional<Rebuild> rebuild;
};

class StepWindow {
 public:
  // Forgets everything; the next step is 1.
  void Clear();
  // Opens the next step.
  StepUnderWay* Push();
  // Forgets the oldest.  REQUIRES: size() > 0
  void Pop();

  size_t size() const { return steps_.size(); }
  const StepUnderWay& oldest() const { return steps_.front(); }
  // The oldest step that is not done, or the next.
  StepId first_id() const { return StepId(done() + 1); }
  // REQUIRES: first_id() <= id <= last_id()
  bool IsRebuild(uint64_t id) const { return steps_[id - first_id().value()].rebuild.has_value(); }
  // Whether the steps under way compute nothing but this sequence, and there is one.
  bool IsAll(SequenceId sequence) const;
  // Guesses of a sequence that are being verified.
  int32_t GuessesOf(SequenceId sequence) const;
  StepId last_id() const { return last_id_; }  // of the last step ever pushed; 0: none
  uint64_t done() const { return last_id_.value() - steps_.size(); }

  // Whether a result is one that the oldest step can have, or the first after rebuilds: its number,
  // the sequences it samples in order, their positions, tokens of the vocabulary; of a sequence
  // with guesses as many tokens as were guessed right, and one; and drafts of sequences that were
  // asked for some, once each, behind a token that was drawn. The result comes from another process
  // and nothing in it is believed before this.
  absl::Status Check(const v1::StepResult& result, int64_t vocab_size) const;

 private:
  static absl::Status CheckDrafts(const StepUnderWay& step, const v1::StepResult& result,
                                  int64_t vocab_size);

  std::deque<StepUnderWay> steps_;
  std::vector<std::vector<StepEntry>> spare_;  // for their memory
  StepId last_id_;
};

}  // namespace tutti::coordinator
