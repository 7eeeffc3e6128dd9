// A deadline for calls into a library that has none: a call that takes too long is given up from
// another thread, by the function that makes the library return.
//
// Thread: Run by one at a time.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace tutti::kernels::cuda {

class CallWatchdog {
 public:
  explicit CallWatchdog(Duration patience);
  ~CallWatchdog();

  // call(). When it takes longer than the patience, give_up() is called while it goes on, once, on
  // another thread; the answer is then DEADLINE_EXCEEDED with `name`, for any result of the call.
  absl::Status Run(const char* name, const std::function<absl::Status()>& call,
                   const std::function<void()>& give_up);

 private:
  void Watch();

  const Duration patience_;
  Mutex mutex_;
  ConditionVariable changed_;
  // Of the call in progress.
  Instant deadline_ ABSL_GUARDED_BY(mutex_) = kInstantNever;
  const std::function<void()>* give_up_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool expired_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::kernels::cuda
