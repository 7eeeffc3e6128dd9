// A few threads that run closures for clients: tokenizing long prompts must hold up neither the
// threads that answer RPCs nor the clients that ask for little.
//
// Hosts, and the connections of a host, take turns (FairQueue). Small work may have threads that
// take nothing larger, so that a small prompt waits for small ones at most; and large work threads
// that take nothing else and run below all others, so that it takes only what they leave of the
// processors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "door/fair_queue.h"

namespace tutti::door {

class WorkPool {
 public:
  struct Work {
    std::string client;  // whose turn it takes: see ClientOf
    std::string owner;   // of the client: a tenant, or a network; empty: the client's host
    int64_t bytes = 0;   // of the request: how long it may take
    // Lets no exception out.
    std::function<void()> run;
  };

  // Threads by what they take.
  struct Threads {
    int any = 0;         // all work; REQUIRES: 0 where `large` is not
    int small = 0;       // up to FairQueue::kSmall
    int medium = 0;      // up to FairQueue::kMedium
    int large = 0;       // FairQueue::kLarge only, kLargeNiceSteps below all others
    int nice_steps = 0;  // how far the others are below all others (LowerPriority)
  };

  // A pool in which at most `capacity` closures wait. A host may have as many as are free then; a
  // connection, as many as its host may have beside. REQUIRES: threads for work of every size
  WorkPool(Threads threads, size_t capacity);
  // Runs the queued closures, then ends.
  ~WorkPool();
  // From now on nothing is taken, and what waits never runs and goes with the pool; returns when
  // what runs has ended.
  // Thread: the owner's.
  void Stop();

  // Thread: any. False when the queue is full, or the host's or connection's part of it.
  bool Submit(Work work);
  // Small work of nobody in particular.
  bool Submit(std::function<void()> run) { return Submit({.run = std::move(run)}); }

 private:
  void Start(int threads, int nice_steps, FairQueue* queue, FairQueue::Size largest);
  void Run(FairQueue* queue, FairQueue::Size largest);
  // What waits of a host, and of one of its connections.
  size_t WaitingOf(std::string_view host) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t WaitingOf(std::string_view host, std::string_view client) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t capacity_;
  Mutex mutex_;
  ConditionVariable ready_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  const bool divides_;  // large work waits in a queue of its own
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  FairQueue large_ ABSL_GUARDED_BY(mutex_);
  std::vector<FairQueue::Work> dropped_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace tutti::door
