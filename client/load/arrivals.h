// When chats begin.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"

namespace tutti::client {

struct ArrivalOptions {
  // Exactly one of these three is given.
  // Chats per second on average, at random (Poisson): an open loop, where a slow service does not
  // slow the arrivals down.
  double rate = 0;
  int32_t concurrency = 0;      // so many chats at a time: a closed loop
  std::vector<Duration> times;  // of a trace, since its start, never decreasing

  int64_t chats = 0;    // at most so many
  Duration duration{};  // none begins later; zero: no limit
  uint64_t seed = 1;
};

// The chats' beginnings, one after the other. In a closed loop the first `concurrency` begin at
// once and every later one when another has ended.  Thread: one.
class Arrivals {
 public:
  explicit Arrivals(ArrivalOptions options);

  // When the next chat is due, since the start; none when there is none, or in a closed loop none
  // until another ends. The same until Pop.
  std::optional<Duration> Next() const;
  // The chat that Next spoke of begins; its number, from 0.
  int64_t Pop();
  // A chat has ended at `now`.
  void OnEnded(Duration now);
  // No more chats begin.
  void Stop() { stopped_ = true; }
  // Whether chats may still begin.
  bool exhausted() const;

 private:
  void Draw();

  const ArrivalOptions options_;
  Random random_;
  int64_t popped_ = 0;
  Duration next_{};   // open loop
  int64_t free_ = 0;  // closed loop: places
  Duration freed_{};  // when the last one became free
  bool stopped_ = false;
};

}  // namespace tutti::client
