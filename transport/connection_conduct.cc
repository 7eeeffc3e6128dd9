#include "transport/connection_conduct.h"

#include <algorithm>
#include <utility>

#include "transport/limits.h"

namespace tutti::transport {
namespace {

// Bytes that may be of messages which are on their way; where others were cut, without borrowing.
int64_t MessagesUnderWay(const Conduct::Standing& standing) {
  const int64_t messages = int64_t{standing.reading} + standing.waiting;
  if (standing.is_slowed) return std::min<int64_t>(messages, 1) * kMessageBytesMax;
  return std::min(messages * kMessageDebtBytesMax, kMessagesDebtBytesMax);
}

int64_t BorrowedMax(const Conduct::Standing& standing) {
  const int64_t messages = int64_t{standing.reading} + standing.waiting;
  if (!standing.is_slowed || messages <= 1) return 0;
  return std::clamp<int64_t>(standing.lendable, 0, (messages - 1) * kMessageBytesMax);
}

}  // namespace

bool Conduct::SetAside(const Standing& standing) {
  const int64_t lost = standing.lost - std::exchange(lost_, standing.lost);
  if (standing.is_slowed || lost == 0 || debt_ < lost * kDebtBytesMax) return false;
  if (set_aside_ > kLostBytesMax) return false;
  set_aside_ += std::exchange(debt_, 0);
  return true;
}

bool Conduct::Judge(const SocketState& socket, const Standing& standing, Instant now) {
  const int64_t read = (socket.received - socket.unread) - (socket_.received - socket_.unread);
  const int64_t sent = socket.sent - socket_.sent;
  const int64_t became = standing.credited - credited_;
  const Duration since = now - looked_at_;
  const auto forgiven = static_cast<int64_t>(Seconds(since) * kDebtForgivenPerSecond);
  socket_ = socket;
  credited_ = standing.credited;
  looked_at_ = now;
  debt_ = std::max<int64_t>(0, debt_ + read - became - kAcknowledgedPerSent * sent - forgiven);
  if (socket.unread == 0) {
    looks_ = 0;
  } else if (looks_++ == 0) {
    captive_for_ = {};
    captive_debt_ = 0;
  } else {
    captive_debt_ = std::max<int64_t>(0, captive_debt_ + read - became);
    if (read > 0) captive_for_ += std::min(since, standing.busy);
  }
  set_aside_ =
      std::max<int64_t>(0, set_aside_ - static_cast<int64_t>(Seconds(since) * kLostPaidPerSecond));
  const int64_t unexplained = debt_ - kDebtBytesMax - MessagesUnderWay(standing);
  borrowed_ = std::clamp<int64_t>(unexplained, 0, BorrowedMax(standing));
  if (debt_ <= kDebtBytesMax) {
    lost_ = standing.lost;
  } else if (unexplained > borrowed_ && !SetAside(standing)) {
    return false;
  }
  const Duration captive_max = standing.is_slowed ? kSlowedCaptiveMax : kCaptiveMax;
  const int looks_max = standing.is_slowed ? kSlowedCaptiveLooks : kCaptiveLooks;
  // What is not owed, as every byte of it was acknowledged, has no other bound.
  const bool is_bounded =
      debt_ >= captive_debt_ / 2 &&
      static_cast<double>(captive_debt_) >= Seconds(captive_for_) * kCaptiveBytesPerSecond;
  return !(looks_ >= looks_max && captive_for_ >= captive_max &&
           captive_debt_ > kCaptiveDebtBytesMax && !is_bounded);
}

}  // namespace tutti::transport
