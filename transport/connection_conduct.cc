#include "transport/connection_conduct.h"

#include <algorithm>

#include "transport/limits.h"

namespace tutti::transport {

bool Conduct::Judge(const SocketState& socket, const Standing& standing, Instant now) {
  const int64_t read = (socket.received - socket.unread) - (socket_.received - socket_.unread);
  const int64_t sent = socket.sent - socket_.sent;
  const int64_t became = standing.credited - credited_;
  const auto forgiven = static_cast<int64_t>(Seconds(now - looked_at_) * kDebtForgivenPerSecond);
  socket_ = socket;
  credited_ = standing.credited;
  looked_at_ = now;
  debt_ = std::max<int64_t>(0, debt_ + read - became - kAcknowledgedPerSent * sent - forgiven);
  if (socket.unread == 0) {
    looks_ = 0;
  } else if (looks_++ == 0) {
    captive_since_ = now;
    captive_debt_ = 0;
  } else {
    captive_debt_ = std::max<int64_t>(0, captive_debt_ + read - became);
  }
  if (debt_ > kDebtBytesMax && !standing.is_reading) return false;
  const Duration captive_max = standing.is_slowed ? kSlowedCaptiveMax : kCaptiveMax;
  const int looks_max = standing.is_slowed ? kSlowedCaptiveLooks : kCaptiveLooks;
  return !(looks_ >= looks_max && now - captive_since_ >= captive_max &&
           captive_debt_ > kCaptiveDebtBytesMax);
}

}  // namespace tutti::transport
