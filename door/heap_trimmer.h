// Gives the heap's free memory back to the system. The allocator keeps what many small buffers
// leave behind, and nobody counts all of them: so a thread of its own looks at the heap now and
// then, and trims it where much more is free in it than the last trim left; what that had to leave
// is forgotten with time, as what was in use between may be free by then. A trim takes
// milliseconds, after a flood of gigabytes more, and holds the allocator's locks one by one: looks
// and trims never take more than a share of the time.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "door/limits.h"

namespace tutti::door {

// What of a process lies in memory and is no file's, and what of its heap is in use. [bytes]
struct HeapState {
  int64_t resident = 0;
  int64_t used = 0;
};

HeapState LookAtHeap();
// Gives what the allocator keeps of memory that is free back to the system.
void TrimHeap();

// Holds the allocator to bounds of its own (kHeapMappedBytes, kHeapTopBytes). Without them it keeps
// twice the largest buffer that it ever gave back, in each of its arenas, where no trim gets it.
// Of the process, from then on.
void BoundHeap();

class HeapTrimmer {
 public:
  // BoundHeap too. The first look is the caller's: what is freed from then on is seen. The next
  // ones, `look_every` or later where they take long, and `trim` run on the thread.
  explicit HeapTrimmer(std::function<HeapState()> look = LookAtHeap,
                       std::function<void()> trim = TrimHeap, Duration look_every = kHeapLookEvery,
                       Duration forgets = kHeapForgets);
  // Waits for a run that has begun.
  ~HeapTrimmer();
  HeapTrimmer(const HeapTrimmer&) = delete;
  HeapTrimmer& operator=(const HeapTrimmer&) = delete;

 private:
  void Run();
  // How much is resident without being in use. [bytes]
  int64_t Unused() const;
  // False when the end has come.
  bool Sleep(Duration duration);

  const std::function<HeapState()> look_;
  const std::function<void()> trim_;
  const Duration look_every_;
  const Duration forgets_;
  // Of what is not in use, after the last trim: the least since, and less with time. The thread's.
  int64_t kept_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::door
