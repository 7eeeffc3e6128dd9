// Limits of processes, whatever they serve.
#pragma once

#include "base/clock.h"

namespace tutti {

// Two signals closer than this are one: a process manager may tell both a parent, which passes it
// on, and its children.
inline constexpr Duration kOneSignal = std::chrono::seconds(1);

// Durations of flags are at most this, a third of a year, and longer ones mean for ever: sums of
// them and of a time of the clock cannot overflow.
inline constexpr Duration kLongestFlag = std::chrono::seconds(10'000'000);

}  // namespace tutti
