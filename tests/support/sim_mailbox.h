// The events that the engine's thread finds when it turns, and the times in which it does not: a
// coordinator that is stopped, or moved to another host, goes on later, and of what came meanwhile
// it reads the first after it has looked at the clock.
//
// Thread: one.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "coordinator/events.h"
#include "tests/support/sim_options.h"
#include "tests/support/sim_queue.h"

namespace tutti::tests {

class SimMailbox {
 public:
  // `wake` makes the engine's thread turn soon.  REQUIRES: options and queue outlive this
  SimMailbox(const SimOptions* options, SimQueue* queue, std::function<void()> wake)
      : options_(options),
        queue_(queue),
        wake_(std::move(wake)),
        random_(options->seed, /*stream=*/5) {}

  // Puts the run's stalls into the queue.
  void ScheduleStalls();
  void Post(coordinator::Event event);
  // The thread stands still: it will be woken.
  bool stalled() const { return queue_->now() < stalled_until_; }
  std::vector<coordinator::Event> Drain() { return std::exchange(items_, {}); }
  // The time for which it has stood still since `time`.
  Duration StalledSince(Instant time) const;

 private:
  void Stall(Duration how_long);
  void GoOn(Duration stalled);

  const SimOptions* const options_;
  SimQueue* const queue_;
  const std::function<void()> wake_;
  Random random_;
  std::vector<coordinator::Event> items_;
  std::vector<coordinator::Event> late_;  // still to be read, after the clock
  bool reads_late_ = false;
  Instant stalled_until_{};
  std::vector<std::pair<Instant, Duration>> stalls_;
};

}  // namespace tutti::tests
