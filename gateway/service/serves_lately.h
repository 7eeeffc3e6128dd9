// Whether the service behind serves, or did so shortly ago. A pipeline that forms again is a pause
// of its streams, for which newcomers wait where an answer came lately (client/first_waits.h); a
// gateway that said at once that it is not ready would be taken out of its balancer meanwhile.
#pragma once

#include <optional>

#include "base/clock.h"
#include "gateway/limits.h"

namespace tutti::gateway {

// Thread: one.
class ServesLately {
 public:
  // `serves`: as it says now.
  bool Update(bool serves, Instant now) {
    if (serves) served_ = now;
    return served_.has_value() && now - *served_ <= kReadyPatience;
  }

 private:
  std::optional<Instant> served_;
};

}  // namespace tutti::gateway
