// A protocol over HTTP, as the gateway sees it: paths, and requests for generated text that are
// under way.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "gateway/api_error.h"
#include "gateway/service/route.h"

namespace tutti::gateway {

class HttpApi {
 public:
  virtual ~HttpApi() = default;
  // Good for as long as this lives.
  virtual std::vector<Route> Routes() = 0;
  // Every kTick.
  virtual void Tick(Instant now) = 0;
  // From now on nothing new is generated.
  virtual void Drain() = 0;
  // Ends what is being generated.
  virtual void EndAll(const ApiError& why) = 0;
  // Answers with an Idempotency-Key that were not kept, since the beginning.
  virtual int64_t keys_not_kept() const { return 0; }
};

}  // namespace tutti::gateway
