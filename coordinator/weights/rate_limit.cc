#include "coordinator/weights/rate_limit.h"

#include <algorithm>

namespace tutti::coordinator {

Instant RateLimit::Take(int64_t bytes, Instant now) {
  if (bytes_per_second_ <= 0) return now;
  const Instant at = std::max(now, next_);
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second_);
  next_ = at + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return at;
}

}  // namespace tutti::coordinator
