// A bounded queue: many producers, one consumer. The only way into a thread that owns state.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"

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
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    ready_.notify_one();
  }

  // Like Post; false, with nothing queued, when `capacity` items wait or the mailbox is closed.
  bool TryPost(T item) {
    std::lock_guard lock(mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    ready_.notify_one();
    return true;
  }

  // Moves everything queued into *out (cleared first). Waits until there is something, `deadline`
  // passes or the mailbox is closed. False when closed and empty.  Thread: the consumer.
  bool Drain(Instant deadline, std::vector<T>* out) {
    out->clear();
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return closed_ || !items_.empty(); };
    if (deadline == kInstantNever) {
      ready_.wait(lock, ready);
    } else {
      ready_.wait_until(lock, deadline, ready);
    }
    for (T& item : items_) out->push_back(std::move(item));
    items_.clear();
    return !(closed_ && out->empty());
  }

  // Wakes the consumer; later TryPosts fail, queued items are still delivered.  Thread: any.
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    ready_.notify_all();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;  // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace tutti
