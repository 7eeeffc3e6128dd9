// A port for /metrics and /healthz, and for nothing else: never the one that clients use.
//
// A connection carries one request and ends with its answer, so that nothing two readers could
// understand differently follows it. Without TLS, and for everybody who can reach it: listen on
// loopback, or on a network of the operator's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace tutti::metrics {

class Listener {
 public:
  // The text of a scrape.  Thread: the listener's; it may wait for kScrapePatience.
  using Scrape = std::function<std::string()>;

  // Listens at `address` (host:port; port 0: any free one; the host a number or localhost). Errors
  // name --metrics and say what cannot be.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(const std::string& address, Scrape scrape);
  // Ends the thread.
  virtual ~Listener() = default;

  // host:port.
  virtual const std::string& address() const = 0;
};

}  // namespace tutti::metrics
