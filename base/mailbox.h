// A bounded queue: many producers, one consumer. The only way into a thread that owns state.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace tutti {

template <typename T>
class Mailbox {
 public:
  // `capacity`: TryPost refuses beyond it. Post does not: use it for events whose number is bounded
  // elsewhere.
  explicit Mailbox(size_t capacity) : capacity_(capacity) {}

  // Thread: any. Never blocks. The consumer may destroy the mailbox as soon as it has the item: it
  // is told under the lock, so that nothing here is touched after that.
  void Post(T item) {
    const MutexLock lock(&mutex_);
    items_.push_back(std::move(item));
    ready_.NotifyOne();
  }

  // Like Post; false, with nothing queued, when `capacity` items wait or the mailbox is closed.
  bool TryPost(T item) {
    const MutexLock lock(&mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    ready_.NotifyOne();
    return true;
  }

  // Moves everything queued into *out (cleared first). Waits until there is something, `deadline`
  // passes or the mailbox is closed. False when closed and empty.  Thread: the consumer.
  bool Drain(Instant deadline, std::vector<T>* out) {
    out->clear();
    const MutexLock lock(&mutex_);
    while (!closed_ && items_.empty()) {
      if (deadline == kInstantNever) {
        ready_.Wait(&mutex_);
      } else if (!ready_.WaitUntil(&mutex_, deadline)) {
        break;
      }
    }
    for (T& item : items_) out->push_back(std::move(item));
    items_.clear();
    return !(closed_ && out->empty());
  }

  // Wakes the consumer; later TryPosts fail, queued items are still delivered.  Thread: any.
  void Close() {
    const MutexLock lock(&mutex_);
    closed_ = true;
    ready_.NotifyAll();
  }

 private:
  const size_t capacity_;
  Mutex mutex_;
  ConditionVariable ready_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti
