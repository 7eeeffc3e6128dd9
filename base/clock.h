// Time as an argument. Only SystemClock reads the machine's monotonic clock; wall time steers
// nothing.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>

namespace tutti {

using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// The instant that never comes.
inline constexpr Instant kInstantNever = Instant::max();

class Clock {
 public:
  virtual ~Clock() = default;
  // Thread: any.
  virtual Instant Now() const = 0;
};

class SystemClock : public Clock {
 public:
  Instant Now() const override { return std::chrono::steady_clock::now(); }
};

// A clock that stands still until a test moves it.
class ManualClock : public Clock {
 public:
  Instant Now() const override { return now_; }
  void Advance(Duration step) { now_ += step; }
  void Set(Instant now) { now_ = now; }

 private:
  Instant now_{};
};

inline double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }
inline double Milliseconds(Duration duration) { return Seconds(duration) * 1e3; }

// What this thread has had of a processor: for how much a thing takes, whoever else runs.
inline Duration ThreadTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// Seconds since 1970, by the wall clock: for what is compared with another machine's, or told.
inline int64_t WallSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace tutti
