#include "coordinator/steps/guess_sources.h"

#include <algorithm>

#include "coordinator/limits.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

int32_t DraftSource::Guess(const Sequence& sequence, int32_t most, std::vector<TokenId>* guesses) {
  const std::vector<TokenId>& drafts = sequence.stay.drafts;
  const auto count = std::min<size_t>(drafts.size(), static_cast<size_t>(most));
  guesses->insert(guesses->end(), drafts.begin(), drafts.begin() + static_cast<int64_t>(count));
  return 0;
}

void GuessSources::BeginStep() {
  for (GuessSource* const source : sources_) {
    if (source != nullptr) source->BeginStep();
  }
}

std::optional<GuessSources::Found> GuessSources::Guess(Sequence* sequence, const Most& most,
                                                       std::vector<TokenId>* guesses) {
  const size_t begin = guesses->size();
  std::optional<Found> best;
  double best_expected = 0;
  for (const GuessOrigin origin : kGuessOrigins) {
    GuessSource* const source = sources_[IndexOf(origin)];
    int32_t wanted = most[IndexOf(origin)];
    if (source == nullptr || wanted <= 0) continue;
    GuessPace& pace = sequence->PaceOf(origin);
    if (origin != GuessOrigin::kDraft) wanted = std::min(wanted, pace.Next());
    if (wanted <= 0) continue;
    one_.clear();
    const int32_t equal = source->Guess(*sequence, wanted, &one_);
    if (one_.empty()) continue;
    const bool repeats = equal >= kEqualLikely;
    const bool likely = repeats || pace.IsLikely();
    const double expected = pace.Expected(static_cast<int32_t>(one_.size()), repeats);
    if (best.has_value() && !likely && expected <= best_expected) continue;
    guesses->resize(begin);
    guesses->insert(guesses->end(), one_.begin(), one_.end());
    best = {.origin = origin, .repeats = repeats};
    best_expected = expected;
    if (likely) break;
  }
  return best;
}

void GuessSources::Forget(const Sequence& sequence) {
  for (GuessSource* const source : sources_) {
    if (source != nullptr) source->Forget(sequence);
  }
}

}  // namespace tutti::coordinator
