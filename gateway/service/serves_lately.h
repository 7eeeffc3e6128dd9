// Whether the service behind serves, or did so shortly ago: then calls wait for it
// (client::FirstWaits), while a gateway that said it is not ready would be taken out of its
// balancer, which refuses them.
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
