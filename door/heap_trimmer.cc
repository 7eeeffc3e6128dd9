#include "door/heap_trimmer.h"

#include <malloc.h>

#include <utility>

#include "base/thread.h"

namespace tutti::door {

void TrimHeap() { malloc_trim(0); }

HeapTrimmer::HeapTrimmer(std::function<void()> trim, Duration again_after)
    : trim_(std::move(trim)),
      again_after_(again_after),
      thread_(StartThread("the return of memory", [this] { Run(); })) {}

HeapTrimmer::~HeapTrimmer() {
  {
    const MutexLock lock(&mutex_);
    is_over_ = true;
  }
  changed_.NotifyOne();
  thread_.join();
}

void HeapTrimmer::Wake() {
  {
    const MutexLock lock(&mutex_);
    is_due_ = true;
  }
  changed_.NotifyOne();
}

void HeapTrimmer::Run() {
  const SystemClock clock;
  Instant again_at = Instant::max();
  while (true) {
    {
      const MutexLock lock(&mutex_);
      while (!is_due_ && !is_over_ && clock.Now() < again_at) {
        if (again_at == Instant::max()) {
          changed_.Wait(&mutex_);
        } else {
          changed_.WaitUntil(&mutex_, again_at);
        }
      }
      if (is_over_) return;
      again_at = std::exchange(is_due_, false) ? clock.Now() + again_after_ : Instant::max();
    }
    trim_();
  }
}

}  // namespace tutti::door
