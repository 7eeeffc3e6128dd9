// A deadline for calls into a library that has none: a call that takes too long is given up from
// another thread, by whatever makes the library return.
//
// Thread: Run by one at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::kernels::cuda {

class CallWatchdog {
 public:
  explicit CallWatchdog(Duration patience);
  ~CallWatchdog();

  // call(). When it takes longer than the patience, give_up() is called while it goes on, once, on
  // another thread; the answer is then DEADLINE_EXCEEDED with `name`, whatever the call returned.
  absl::Status Run(const char* name, const std::function<absl::Status()>& call,
                   const std::function<void()>& give_up);

 private:
  void Watch();

  const Duration patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  Instant deadline_ = kInstantNever;  // of the call in progress
  const std::function<void()>* give_up_ = nullptr;
  bool expired_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tutti::kernels::cuda
