#include "coordinator/steps/guess_pace.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

// The weight of the last verification in the chance: some ten of them make it.
constexpr float kNew = 0.2F;
// Verifications without a right guess until there is a pause.
constexpr int16_t kMissesMax = 3;
// Steps of the first pause; each that ends with another miss is twice as long, up to the longest.
constexpr int16_t kPauseLeast = 16;
constexpr int16_t kPauseMost = 128;

}  // namespace

int32_t GuessPace::Next() {
  if (pause_ == 0) return wanted_;
  // Who tries again knows nothing, so that it is worth some time.
  if (--pause_ == 0) chance_ = std::max(chance_, unknown_);
  return 0;
}

double GuessPace::Expected(int32_t guesses, bool repeats) const {
  const float each = repeats && misses_ == 0 ? std::max(chance_, kRepeats) : chance_;
  double sum = 0;
  double chance = 1;
  for (int32_t i = 0; i < guesses; ++i) sum += chance *= each;
  return sum;
}

void GuessPace::OnTooLong() {
  if (++too_long_ < kPauseMost) return;
  too_long_ = 0;
  chance_ = std::max(chance_, unknown_);
}

void GuessPace::OnVerified(int32_t guesses, int32_t right) {
  too_long_ = 0;
  CHECK(right >= 0 && right <= guesses && guesses > 0) << right << " of " << guesses;
  const int32_t tried = std::min(guesses, right + 1);
  const float share = static_cast<float>(right) / static_cast<float>(tried);
  chance_ += kNew * (share - chance_);
  if (right > 0) {
    misses_ = next_pause_ = 0;
    // A text that goes on longer than was guessed is guessed further the next time.
    const int32_t wanted = right == guesses ? std::max<int32_t>(wanted_, 2 * guesses) : right + 1;
    wanted_ = static_cast<int16_t>(std::min(wanted, kGuessesMax));
    return;
  }
  wanted_ = static_cast<int16_t>(std::max(1, wanted_ / 2));
  if (++misses_ < kMissesMax) return;
  // One miss more after the pause, and there is a longer one.
  misses_ = kMissesMax - 1;
  wanted_ = 1;
  next_pause_ = std::clamp<int16_t>(static_cast<int16_t>(2 * next_pause_), kPauseLeast, kPauseMost);
  pause_ = next_pause_;
}

}  // namespace tutti::coordinator
