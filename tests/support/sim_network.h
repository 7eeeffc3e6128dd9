// Simulated links: each delivers messages in the order in which they were sent, with random delays.
//
// Thread: one.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/random.h"
#include "tests/support/sim_queue.h"

namespace tutti::tests {

struct SimDelay {
  Duration least{};
  Duration most{};
  double slow_chance = 0;  // of a message that takes up to ten times as long
};

// One direction of one link. Messages under way outlive the object.
class SimPipe {
 public:
  // REQUIRES: `queue` and `random` outlive everything sent.
  SimPipe(SimQueue* queue, Random* random, SimDelay delay)
      : queue_(queue), random_(random), delay_(delay), state_(std::make_shared<State>()) {}

  // `deliver` is called at the other end, after everything sent before.
  void Send(std::function<void()> deliver);
  // The last thing that happens at the other end; nothing sent later arrives. With `lose`, neither
  // do messages under way.
  void Close(bool lose, std::function<void()> closed);
  // From now on nothing arrives, and neither end is told: the link is half open.
  void Swallow() { state_->swallows = true; }

 private:
  struct State {
    bool swallows = false;
    bool closed = false;
    uint64_t lost_before = 0;  // messages numbered below are lost
  };
  Instant ArrivalTime();

  SimQueue* const queue_;
  Random* const random_;
  const SimDelay delay_;
  const std::shared_ptr<State> state_;
  uint64_t sent_ = 0;
  Instant last_arrival_{};
};

}  // namespace tutti::tests
