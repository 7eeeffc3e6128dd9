// The error for a request that is refused because nothing here serves.
//
// Thread: any.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::coordinator {

// UNAVAILABLE. `leaving`: what served leaves in peace, and it is likely to come back, or another in
// its place; then with a delay after which clients may come again (base/retry_delay.h).
absl::Status NotServing(const std::string& why, bool leaving);

// UNAVAILABLE with such a delay: this coordinator itself leaves.
absl::Status ShuttingDown();

}  // namespace tutti::coordinator
