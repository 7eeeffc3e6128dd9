// Virtual time: things to be done at instants, done in order.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"

namespace tutti::tests {

class SimQueue {
 public:
  const Clock* clock() const { return &clock_; }
  Instant now() const { return clock_.Now(); }

  // Things of the same instant are done in the order in which they were asked for. A past instant
  // means now.
  void At(Instant when, std::function<void()> what) {
    what_.emplace(std::make_pair(std::max(when, now()), ++count_), std::move(what));
  }
  void After(Duration wait, std::function<void()> what) { At(now() + wait, std::move(what)); }

  // Does the next thing; false when there is none before `end`, where the clock then stands.
  bool RunNext(Instant end) {
    if (what_.empty() || what_.begin()->first.first > end) {
      clock_.Set(end);
      return false;
    }
    auto next = what_.extract(what_.begin());
    clock_.Set(next.key().first);
    next.mapped()();
    return true;
  }

 private:
  ManualClock clock_;
  std::map<std::pair<Instant, uint64_t>, std::function<void()>> what_;
  uint64_t count_ = 0;
};

}  // namespace tutti::tests
