// The sources of guesses of a pipeline, of which one is taken for each sequence and step.
//
// They are asked in the order of GuessOrigin, each for as many as the sequence's pace of it says.
// The first whose guesses are likely is taken: so many tokens before the place are equal as chance
// does not bring (kEqualLikely), or half of what it said of the sequence lately was right at least.
// Where none is likely, that one is taken which is expected to bring most, and of equal ones the
// first. A source that pauses is not asked, and those behind one that is likely neither.
//
// Drafts are there already (DraftSource): their pace was asked when they were asked for.
//
// Thread: the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "coordinator/steps/guess_origin.h"
#include "coordinator/steps/guess_source.h"

namespace tutti::coordinator {

// Hands out what the draft model said behind the known tokens (Sequence::Stay::drafts).
class DraftSource : public GuessSource {
 public:
  int32_t Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) override;
  void Forget(const Sequence&) override {}  // they go with the stay
};

class GuessSources {
 public:
  GuessSources() { Use(GuessOrigin::kDraft, &drafts_); }
  GuessSources(const GuessSources&) = delete;
  GuessSources& operator=(const GuessSources&) = delete;

  // Null: this origin has none.  REQUIRES: the source outlives this
  void Use(GuessOrigin origin, GuessSource* source) { sources_[IndexOf(origin)] = source; }

  void BeginStep();
  // Guesses of a sequence that may be had of each origin in this step; 0: none.
  using Most = std::array<int32_t, kGuessOriginCount>;
  struct Found {
    GuessOrigin origin = GuessOrigin::kText;
    bool repeats = false;  // see GuessPace::Expected
  };
  // Appends guesses of one source, and says of which; nothing: no source has any.
  std::optional<Found> Guess(Sequence* sequence, const Most& most, std::vector<TokenId>* guesses);
  void Forget(const Sequence& sequence);

 private:
  DraftSource drafts_;
  std::array<GuessSource*, kGuessOriginCount> sources_{};
  std::vector<TokenId> one_;  // of the source that is asked, kept for its memory
};

}  // namespace tutti::coordinator
