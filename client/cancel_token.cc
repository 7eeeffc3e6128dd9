#include "client/cancel_token.h"

#include <chrono>

namespace tutti::client {

void CancelToken::Cancel() {
  const MutexLock lock(&mutex_);
  cancelled_ = true;
  if (on_cancel_) on_cancel_();
  changed_.NotifyAll();
}

bool CancelToken::cancelled() const {
  const MutexLock lock(&mutex_);
  return cancelled_;
}

bool CancelToken::WaitUntil(Instant time) {
  const MutexLock lock(&mutex_);
  while (!cancelled_ && std::chrono::steady_clock::now() < time) changed_.WaitUntil(&mutex_, time);
  return cancelled_;
}

}  // namespace tutti::client
