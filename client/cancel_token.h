// The end of calls from another thread.
#pragma once

#include <functional>

#include "base/clock.h"
#include "base/mutex.h"

namespace tutti::client {

// Ends calls from another thread. Once cancelled it stays so.
//
// Thread: any.
class CancelToken {
 public:
  CancelToken() = default;
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  void Cancel();
  bool cancelled() const;
  // Returns at `time`, or sooner when it is cancelled; whether it is.
  bool WaitUntil(Instant time);

 private:
  friend class CancelScope;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);  // of the call in progress
};

}  // namespace tutti::client
