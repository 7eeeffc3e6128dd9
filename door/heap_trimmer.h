// Gives the heap's free memory back to the system, on a thread of its own: that takes milliseconds,
// or after a flood of gigabytes more, and whoever gives the last bytes back may hold a lock that
// other threads wait for. And once more a little later: other threads may not have freed yet what
// they gave back, or hold what was never counted.
//
// Thread: any.
#pragma once

#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "door/limits.h"

namespace tutti::door {

// Gives what the allocator keeps of memory that is free back to the system.
void TrimHeap();

class HeapTrimmer {
 public:
  // `trim` runs on the thread, once for any number of calls of Wake since it began last, and again
  // after `again_after` without a call.
  explicit HeapTrimmer(std::function<void()> trim, Duration again_after = kTrimAgainAfter);
  // Waits for a run that has begun.
  ~HeapTrimmer();
  HeapTrimmer(const HeapTrimmer&) = delete;
  HeapTrimmer& operator=(const HeapTrimmer&) = delete;

  // Returns at once.
  void Wake();

 private:
  void Run();

  const std::function<void()> trim_;
  const Duration again_after_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_due_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::door
