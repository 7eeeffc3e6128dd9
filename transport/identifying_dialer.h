// A dialer whose links carry nothing of their user's before the listener has proved that it knows
// the cluster's secret and is the one that was to be dialled.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "transport/cluster_secret.h"
#include "transport/link.h"

namespace tutti::transport {

class IdentifyingDialer : public Dialer {
 public:
  // `names`: who listens at each target, as an identity's URI (roles.h); nobody can prove to be at
  // another target.  REQUIRES: `dialer` outlives this.
  IdentifyingDialer(Dialer* dialer, std::shared_ptr<const ClusterSecret> secret,
                    std::map<std::string, std::string> names);

  // Frames sent before the proof wait for it, kHeldFramesMax at most. A listener that does not give
  // it is an OnClosed with UNAUTHENTICATED.
  std::unique_ptr<Link> Dial(const std::string& target,
                             std::unique_ptr<LinkHandler> handler) override;

 private:
  Dialer* const dialer_;
  const std::shared_ptr<const ClusterSecret> secret_;
  const std::map<std::string, std::string> names_;
};

}  // namespace tutti::transport
