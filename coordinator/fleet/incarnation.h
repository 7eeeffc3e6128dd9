// The number of this coordinator among those that have led the cluster. Larger than that of every
// earlier one; workers obey none that is lower than one that they have obeyed
// (docs/decisions/0044-who-leads.md).
//
// Thread: the engine's.
#pragma once

#include <cstdint>

#include "base/epochs.h"
#include "base/status.h"

namespace tutti::coordinator {

class Incarnation {
 public:
  // `judged`: a lease gave the number, so there may be others. Otherwise it is a guess, of a
  // coordinator that is the only one by its operator's word.
  void Lead(uint32_t number, bool judged) {
    number_ = number;
    judged_ = judged;
  }
  uint32_t number() const { return number_; }
  Epoch BeforeFirstEpoch() const { return EpochBefore(number_); }

  // A worker says which number it has obeyed; 0: none. A guess that is not above it is raised: it
  // was made in the same second as the last one, or the clock has gone back; or the worker was
  // ours, which costs a number. FAILED_PRECONDITION: a lease gave a lower one, so another
  // coordinator leads or has led since. INVALID_ARGUMENT: there is no higher number.
  absl::Status Meet(uint32_t obeyed);

 private:
  uint32_t number_ = 0;
  bool judged_ = false;
};

}  // namespace tutti::coordinator
