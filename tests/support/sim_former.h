// A coordinator that led until it was stopped, and wakes when another leads: it goes on with what
// lies before it, as if nothing had happened. Nobody may obey it.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "coordinator/engine.h"

namespace tutti::tests {

class SimFormerLeader {
 public:
  // `unread`: events that it had not looked at when it stopped.
  SimFormerLeader(std::unique_ptr<coordinator::Engine> engine,
                  std::vector<coordinator::Event> unread, Instant now)
      : engine_(std::move(engine)), unread_(std::move(unread)), stopped_at_(now) {}

  // Comes while it does not look.
  void Post(coordinator::Event event) { unread_.push_back(std::move(event)); }

  // It runs for a moment; what it wants done.
  std::vector<coordinator::Action> Run(Instant now) {
    std::vector<coordinator::Action> actions;
    // As its process does that finds out how late it is.
    engine_->Handle(coordinator::Stalled{now - stopped_at_}, now, &actions);
    for (coordinator::Event& event : std::exchange(unread_, {})) {
      engine_->Handle(std::move(event), now, &actions);
    }
    engine_->Advance(now, &actions);
    stopped_at_ = now;
    return actions;
  }

 private:
  const std::unique_ptr<coordinator::Engine> engine_;
  std::vector<coordinator::Event> unread_;
  Instant stopped_at_;
};

}  // namespace tutti::tests
