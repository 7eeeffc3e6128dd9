// The wait before the next attempt.  Thread: the executor's.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace tutti::worker {

// Doubles from `first` to `most`; Reset after a success.
class Backoff {
 public:
  Backoff(Duration first, Duration most) : first_(first), most_(most), next_(first) {}
  Duration Next() {
    const Duration wait = next_;
    next_ = std::min(most_, 2 * next_);
    return wait;
  }
  void Reset() { next_ = first_; }

 private:
  const Duration first_;
  const Duration most_;
  Duration next_;
};

}  // namespace tutti::worker
