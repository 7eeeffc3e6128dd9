#include "door/work_pool.h"

#include <string_view>
#include <utility>

#include "door/tenant.h"

namespace tutti::door {

WorkPool::WorkPool(int num_threads, size_t capacity) : capacity_(capacity) {
  for (int i = 0; i < num_threads; ++i) {
    const bool small_only = i == 0 && num_threads > 1;
    threads_.emplace_back([this, small_only] { Run(small_only); });
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

bool WorkPool::Submit(Work work) {
  const std::string_view host = HostOf(work.client);
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

void WorkPool::Run(bool small_only) {
  while (true) {
    std::function<void()> run;
    {
      const MutexLock lock(&mutex_);
      while ((run = queue_.Pop(small_only).run) == nullptr) {
        // Large work is left to the other threads.
        if (closed_) return;
        ready_.Wait(&mutex_);
      }
    }
    run();
  }
}

}  // namespace tutti::door
