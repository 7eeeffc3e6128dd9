// When a child that died starts again.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/clock.h"
#include "client/limits.h"

namespace tutti::client {

// Delays double with every death until the child lived for a quiet time. Pure: a value.
class RestartPolicy {
 public:
  // The wait after a death; nothing when it is time to give up.
  std::optional<Duration> OnDeath(Duration lived) {
    if (lived >= std::chrono::milliseconds(kRestartQuietMs)) deaths_ = 0;
    if (deaths_ >= kRestartsMax) return std::nullopt;
    const int64_t delay_ms = int64_t{kRestartDelayMinMs} << deaths_++;
    return std::chrono::milliseconds(std::min<int64_t>(delay_ms, kRestartDelayMaxMs));
  }

 private:
  int deaths_ = 0;
};

}  // namespace tutti::client
