// A few threads that run closures: tokenizing long prompts must not hold up the threads that answer
// RPCs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mailbox.h"

namespace tutti::coordinator {

class WorkPool {
 public:
  // At most `capacity` closures wait.
  WorkPool(int num_threads, size_t capacity);
  // Runs the queued closures, then ends.
  ~WorkPool();

  // Thread: any. False when the queue is full.
  bool Submit(std::function<void()> work);

 private:
  static void Run(Mailbox<std::function<void()>>* queue);

  // One queue per thread: a mailbox has one consumer.
  std::vector<std::unique_ptr<Mailbox<std::function<void()>>>> queues_;
  std::vector<std::thread> threads_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace tutti::coordinator
