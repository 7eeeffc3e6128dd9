// A few threads that run closures for clients: tokenizing long prompts must hold up neither the
// threads that answer RPCs nor the clients that ask for little.
//
// Hosts, and the connections of a host, take turns (FairQueue). One thread takes small work only,
// so that a small prompt waits for small ones at most. And work that is large lets others that are
// not go ahead of its rest, on its own thread, wherever it passes a yield point
// (base/yield_point.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
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

  // A pool in which at most `capacity` closures wait. A host may have as many as are free then; a
  // connection, as many as its host may have beside. Where there are several threads, the first
  // takes nothing larger than `first_takes`.
  // `nice_steps`: how far its threads are below all others (LowerPriority).
  WorkPool(int num_threads, size_t capacity, FairQueue::Size first_takes = FairQueue::kSmall,
           int nice_steps = 0);
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
  void Run(FairQueue::Size largest);
  void RunOthers();

  const size_t capacity_;
  Mutex mutex_;
  ConditionVariable ready_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<FairQueue::Work> dropped_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace tutti::door
