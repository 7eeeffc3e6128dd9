// A dialer whose links carry nothing of their user's before the listener has proved that it knows
// the cluster's secret and is the one that was to be dialled.
#pragma once

#include <memory>
#include <utility>

#include "transport/cluster_secret.h"
#include "transport/link.h"

namespace tutti::transport {

class IdentifyingDialer : public Dialer {
 public:
  // REQUIRES: `dialer` outlives this.
  IdentifyingDialer(Dialer* dialer, std::shared_ptr<const ClusterSecret> secret)
      : dialer_(dialer), secret_(std::move(secret)) {}

  // The listener proves to be target.listener; nobody can prove to be nobody in particular. Frames
  // sent before the proof wait for it, kHeldFramesMax at most. A listener that does not give it is
  // an OnClosed with UNAUTHENTICATED.
  std::unique_ptr<Link> Dial(const DialTarget& target,
                             std::unique_ptr<LinkHandler> handler) override;

 private:
  Dialer* const dialer_;
  const std::shared_ptr<const ClusterSecret> secret_;
};

}  // namespace tutti::transport
