// A few threads that run closures for clients: tokenizing long prompts must hold up neither the
// threads that answer RPCs nor the clients that ask for little.
//
// Clients take turns by the work that was done for each (fair queueing), not by arrival; and one
// thread takes small work only, so that a small prompt waits for small ones at most. A client that
// comes stands where those that wait have got to on average, which moves on with all work that is
// done: so an endless row of new clients goes ahead of nobody for long.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tutti::coordinator {

class WorkPool {
 public:
  struct Work {
    std::string client;  // whose turn it takes
    int64_t bytes = 0;   // of the request: how long it may take
    // Lets no exception out.
    std::function<void()> run;
  };

  // At most `capacity` closures wait; a client may have as many as are free.
  WorkPool(int num_threads, size_t capacity);
  // Runs the queued closures, then ends.
  ~WorkPool();

  // Thread: any. False when the queue is full, or the client's part of it.
  bool Submit(Work work);
  // Small work of nobody in particular.
  bool Submit(std::function<void()> run) { return Submit({.run = std::move(run)}); }

 private:
  // The work of one client that waits.
  struct Client {
    std::string name;
    std::deque<Work> small, large;
    int64_t begun = 0;  // the cost of all its work, and where it stood when it came
  };
  // In the order of their turns.
  struct EarlierTurn {
    bool operator()(const Client* a, const Client* b) const {
      return std::make_pair(a->begun, &a->name) < std::make_pair(b->begun, &b->name);
    }
  };
  using Turns = std::set<Client*, EarlierTurn>;

  void Run(bool small_only);
  // The next work that this thread may take; none: nothing of that kind waits.
  std::function<void()> NextLocked(bool small_only) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Client* FindLocked(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t capacity_;
  Mutex mutex_;
  ConditionVariable ready_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those with work that waits, and those that have had more than their share of late.
  std::map<std::string, std::unique_ptr<Client>> clients_ ABSL_GUARDED_BY(mutex_);
  Turns with_small_ ABSL_GUARDED_BY(mutex_);
  Turns with_any_ ABSL_GUARDED_BY(mutex_);
  Turns without_ ABSL_GUARDED_BY(mutex_);
  // Where a client that comes begins: what each of those that wait has had on average.
  int64_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace tutti::coordinator
