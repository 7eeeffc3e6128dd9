// Threads for work that takes long or waits, in lanes that do not wait for each other: a lane has
// threads and a queue of its own, in which callers take turns by the work that is done for them
// (door/work_pool.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "door/work_pool.h"

namespace tutti::gateway {

enum class Lane : uint8_t {
  kHere,   // needs this process only, and a moment: figures of the process
  kShort,  // calls of the service for what a small body asks
  kLong,   // large bodies, to be read
  kAsk,    // calls of the service for what a large body asks
};
inline constexpr size_t kLanes = 4;

// The lane of reading a body of so many bytes, and of asking the service for what stands there.
Lane LaneToRead(int64_t bytes);
Lane LaneToAsk(int64_t bytes);

// Thread: any.
class WorkLanes {
 public:
  WorkLanes();

  // Ends when the jobs that run have; those that wait never run, and none is taken any more.
  // Thread: the owner's.
  void Stop();

  // Runs `job` on a thread of that lane, at the turn of `owner`; false when too many wait for it,
  // or too many of the owner's. `bytes`: of the request, how long it may take.
  bool Run(Lane lane, const std::string& owner, int64_t bytes, std::function<void()> job);

 private:
  std::array<door::WorkPool, kLanes> pools_;
};

}  // namespace tutti::gateway
