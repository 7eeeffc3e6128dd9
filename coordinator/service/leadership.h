// Stands by for the lease, keeps it, and says so when it is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "coordinator/service/leader_lease.h"

namespace tutti::coordinator {

class Leadership {
 public:
  struct Callbacks {
    // `why`: this coordinator stands by, and who leads. At first, and when that changes.
    std::function<void(const std::string& why)> on_standing_by;
    std::function<void(uint32_t incarnation)> on_lead;
    // Called before the lease runs out, unless this process did not run. Last.
    std::function<void(const std::string& why)> on_lost;
  };

  // REQUIRES: `lease` and `clock` outlive this.
  Leadership(LeaderLease* lease, const Clock* clock, Callbacks callbacks);
  ~Leadership();

  // Turns on a thread of its own, on which the callbacks come.
  void Start();
  // Ends the thread, and gives the lease back if it is held.
  void Stop();

  // Asks for the lease, or renews it; when to do so again.  Thread: one, for tests without Start.
  Instant Turn();

 private:
  Instant StandBy(Instant now);
  void SayWhoLeads(const std::string& why);
  Instant Lose(const std::string& why);
  void Run();

  LeaderLease* const lease_;
  const Clock* const clock_;
  const Callbacks callbacks_;

  // Owned by the thread that turns.
  bool leads_ = false;
  bool lost_ = false;
  std::string said_;  // of those who lead

  Mutex mutex_;
  ConditionVariable stopping_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::coordinator
