#include "door/work_pool.h"

#include <string_view>
#include <utility>

#include "base/thread.h"
#include "base/yield_point.h"
#include "door/limits.h"
#include "door/tenant.h"

namespace tutti::door {

WorkPool::WorkPool(int num_threads, size_t capacity, FairQueue::Size first_takes, int nice_steps)
    : capacity_(capacity) {
  for (int i = 0; i < num_threads; ++i) {
    const FairQueue::Size largest = i == 0 && num_threads > 1 ? first_takes : FairQueue::kLarge;
    threads_.push_back(StartThread("work on requests", [this, largest, nice_steps] {
      if (nice_steps > 0) LowerPriority(nice_steps);
      Run(largest);
    }));
  }
}

WorkPool::~WorkPool() {
  {
    const MutexLock lock(&mutex_);
    closed_ = true;
    ready_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkPool::Stop() {
  {
    const MutexLock lock(&mutex_);
    closed_ = true;
    while (queue_.size() > 0) dropped_.push_back(queue_.Pop(FairQueue::kLarge));
    ready_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool WorkPool::Submit(Work work) {
  const std::string_view host = work.owner.empty() ? HostOf(work.client) : work.owner;
  const MutexLock lock(&mutex_);
  if (closed_) return false;
  const FairQueue* const of_host = queue_.Find(host);
  const size_t has = of_host == nullptr ? 0 : of_host->size();
  if (queue_.size() >= capacity_ || has >= capacity_ - queue_.size()) return false;
  const size_t room = capacity_ - queue_.size() - has;
  if (of_host != nullptr && of_host->SizeOf(work.client) >= room) return false;
  queue_.Push({host, work.client}, {.bytes = work.bytes, .run = std::move(work.run)});
  ready_.NotifyAll();  // not every thread takes it
  return true;
}

void WorkPool::Run(FairQueue::Size largest) {
  while (true) {
    FairQueue::Work work;
    {
      const MutexLock lock(&mutex_);
      while ((work = queue_.Pop(largest)).run == nullptr) {
        // Larger work is left to the other threads.
        if (closed_) return;
        ready_.Wait(&mutex_);
      }
    }
    if (FairQueue::SizeClassOf(work.bytes) < FairQueue::kLarge) {
      work.run();
    } else {
      const YieldScope slices(kSliceBytes, [this] { RunOthers(); });
      work.run();
    }
  }
}

// What waits and is not large, up to one of the largest of that kind: the large one goes on, too.
void WorkPool::RunOthers() {
  int64_t done = 0;
  while (done < kMediumRequestBytes) {
    FairQueue::Work work;
    {
      const MutexLock lock(&mutex_);
      work = queue_.Pop(FairQueue::kMedium);
    }
    if (work.run == nullptr) return;
    done += work.bytes + kRequestCostBytes;
    work.run();
  }
}

}  // namespace tutti::door
