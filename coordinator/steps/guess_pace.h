// How many tokens of a sequence it is worth to guess: more while guesses are right, fewer when they
// are wrong, none for a while after several in a row that were.
//
// Thread: the engine's.
#pragma once

#include <cstdint>

namespace tutti::coordinator {

class GuessPace {
 public:
  // What is assumed of a text of which nothing is known yet: most of prose says little again, and
  // what is repeated shows it within some steps. And of a draft model: it was made for that.
  static constexpr float kUnknownText = 0.3F;
  static constexpr float kUnknownDraft = 0.6F;
  static constexpr float kRepeats = 0.8F;

  // `chance`: that a guess is right, where nothing is known yet.
  explicit GuessPace(float chance = kUnknownText) : unknown_(chance), chance_(chance) {}

  // Guesses for its next step; 0: none. Asked once for each step in which it might guess, which is
  // what a pause is counted in.
  int32_t Next();
  // The tokens that so many guesses bring, by those of late; without the one that comes anyway.
  // `repeats`: so many tokens before them are equal as chance does not bring (kEqualLikely), which
  // says more than others' fate as long as it was not wrong.
  double Expected(int32_t guesses, bool repeats = false) const;
  bool is_pausing() const { return pause_ > 0; }
  // Whether as many as not are right, of those that come first or behind right ones.
  bool IsLikely() const { return chance_ >= kLikely; }
  // `right` of so many guesses were.  REQUIRES: 0 <= right <= guesses, guesses > 0
  void OnVerified(int32_t guesses, int32_t right);
  // A step had no time for any, which is asked again now and then as if nothing were known.
  void OnTooLong();

 private:
  static constexpr int16_t kFirst = 4;
  static constexpr float kLikely = 0.5F;

  float unknown_;
  float chance_;  // that a guess is right, if those before it are
  int16_t wanted_ = kFirst;
  int16_t misses_ = 0;  // verifications in a row of which no guess was right
  int16_t pause_ = 0;   // steps for which nothing is guessed
  int16_t next_pause_ = 0;
  int16_t too_long_ = 0;  // steps in a row that had no time for any
};

}  // namespace tutti::coordinator
