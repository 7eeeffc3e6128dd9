// Threads for work that takes long or waits, in lanes that do not wait for each other: a lane has
// threads and a queue of its own.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace tutti::gateway {

enum class Lane : uint8_t {
  kHere,   // needs this process only, and a moment: figures of the process
  kShort,  // calls of the service for what a small body asks
  kLong,   // large bodies, and what they ask
};
inline constexpr size_t kLanes = 3;

// The lane of what a body of so many bytes asks for.
Lane LaneOf(size_t body_bytes);

// Thread: any.
class WorkLanes {
 public:
  WorkLanes();
  ~WorkLanes() { Stop(); }

  // Ends when the jobs that run have; those that wait are dropped, and none is taken any more.
  // Thread: the owner's.
  void Stop();

  // Runs `job` on a thread of that lane; false when too many wait for it.
  bool Run(Lane lane, std::function<void()> job);

 private:
  void Work(Lane lane);

  Mutex mutex_;
  std::array<ConditionVariable, kLanes> changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::array<std::deque<std::function<void()>>, kLanes> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace tutti::gateway
