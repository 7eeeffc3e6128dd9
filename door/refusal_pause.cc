#include "door/refusal_pause.h"

#include <algorithm>
#include <chrono>

#include "door/limits.h"
#include "transport/limits.h"

namespace tutti::door {

Duration PauseAfterRefusal(transport::ConnectionCredit* credit, int64_t bytes, Instant now) {
  if (bytes <= kSmallRequestBytes) return Duration::zero();
  const auto own = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
      static_cast<double>(bytes) / static_cast<double>(transport::kLargeRefusalBytesPerSecond)));
  const Duration all = credit->AddPause(now, own);
  return bytes <= kOwnPauseBytesMax ? std::min(all, own) : all;
}

}  // namespace tutti::door
