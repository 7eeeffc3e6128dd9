// When to come again: a delay that travels with the Status of a refusal to the client that was
// refused.
//
// Thread: any; pure functions.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "base/clock.h"

namespace tutti {

// `status` with the delay attached, in whole milliseconds, at least 1.  REQUIRES: not OK.
absl::Status WithRetryDelay(absl::Status status, Duration delay);

// The delay attached to `status`; none when there is none.
std::optional<Duration> RetryDelayOf(const absl::Status& status);

}  // namespace tutti
