#include "tests/support/sim_guesses.h"

#include "coordinator/sequence.h"

namespace tutti::tests {

int32_t SimGuesses::Guess(const coordinator::Sequence& sequence, int32_t most,
                          std::vector<TokenId>* guesses) {
  // Where requests are repeated, finished answers have their turn.
  if (options_->repeat_chance > 0 && random_.Chance(0.5)) return 0;
  const auto right = clients_->RightOf(sequence.request.id);
  const auto have = static_cast<size_t>(sequence.output_tokens());
  for (int64_t count = random_.Between(0, most), i = 0; i < count; ++i) {
    const size_t at = have + static_cast<size_t>(i);
    TokenId guess = -1;
    if (at < right.size() && random_.Chance(options_->guess_right_chance)) {
      guess = right[at].token();
    }
    // Where the answer ends, too.
    if (guess < 0) guess = static_cast<TokenId>(random_.Between(0, kSimVocab - 1));
    guesses->push_back(guess);
  }
  return 0;
}

}  // namespace tutti::tests
