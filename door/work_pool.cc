#include "door/work_pool.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/thread.h"
#include "door/limits.h"
#include "door/tenant.h"

namespace tutti::door {

WorkPool::WorkPool(Threads threads, size_t capacity)
    : capacity_(capacity), divides_(threads.large > 0) {
  CHECK(divides_ ? threads.any == 0 && threads.medium > 0 : threads.any > 0)
      << "no thread for some size of work, or two ways for one";
  Start(threads.small, threads.nice_steps, &queue_, FairQueue::kSmall);
  Start(threads.medium, threads.nice_steps, &queue_, FairQueue::kMedium);
  Start(threads.any, threads.nice_steps, &queue_, FairQueue::kLarge);
  Start(threads.large, kLargeNiceSteps, &large_, FairQueue::kLarge);
}

void WorkPool::Start(int threads, int nice_steps, FairQueue* queue, FairQueue::Size largest) {
  for (int i = 0; i < threads; ++i) {
    threads_.push_back(StartThread("work on requests", [this, nice_steps, queue, largest] {
      if (nice_steps > 0) LowerPriority(nice_steps);
      Run(queue, largest);
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
    for (FairQueue* queue : {&queue_, &large_}) {
      while (queue->size() > 0) dropped_.push_back(queue->Pop(FairQueue::kLarge));
    }
    ready_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool WorkPool::Submit(Work work) {
  const std::string host = work.owner.empty() ? HostOf(work.client) : work.owner;
  const MutexLock lock(&mutex_);
  if (closed_) return false;
  const size_t waiting = queue_.size() + large_.size(), has = WaitingOf(host);
  if (waiting >= capacity_ || has >= capacity_ - waiting) return false;
  const size_t room = capacity_ - waiting - has;
  if (WaitingOf(host, work.client) >= room) return false;
  const bool apart = divides_ && FairQueue::SizeClassOf(work.bytes) == FairQueue::kLarge;
  (apart ? large_ : queue_)
      .Push({host, work.client}, {.bytes = work.bytes, .run = std::move(work.run)});
  ready_.NotifyAll();  // not every thread takes it
  return true;
}

size_t WorkPool::WaitingOf(std::string_view host) const {
  return queue_.SizeOf(host) + large_.SizeOf(host);
}

size_t WorkPool::WaitingOf(std::string_view host, std::string_view client) const {
  size_t count = 0;
  for (const FairQueue* queue : {&queue_, &large_}) {
    if (const FairQueue* const of_host = queue->Find(host)) count += of_host->SizeOf(client);
  }
  return count;
}

void WorkPool::Run(FairQueue* queue, FairQueue::Size largest) {
  while (true) {
    FairQueue::Work work;
    {
      const MutexLock lock(&mutex_);
      while ((work = queue->Pop(largest)).run == nullptr) {
        // Larger work is left to the other threads.
        if (closed_) return;
        ready_.Wait(&mutex_);
      }
    }
    work.run();
  }
}

}  // namespace tutti::door
