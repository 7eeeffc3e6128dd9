// Spreads bytes over time, so that no more than so many a second are on their way.
//
// Thread: one at a time.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tutti::coordinator {

class RateLimit {
 public:
  // 0: no limit.
  explicit RateLimit(int64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  // When these bytes may go: now, or once those before them have had their time. What was not used
  // in quiet times is lost.
  Instant Take(int64_t bytes, Instant now);

 private:
  const int64_t bytes_per_second_;
  Instant next_{};  // from when on the way is free
};

}  // namespace tutti::coordinator
