// The listener's gate: whoever accepts links sees none before its peer has proved who it is. Frames
// of a peer that has not reach nobody.
//
// Two proofs, either or both: of the cluster's secret (identify.h), and of the worker's name, which
// hello gives and the peer's certificate must carry.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/cluster_secret.h"
#include "transport/link.h"

namespace tutti::transport {

// The proofs that a listener asks of all its peers.
struct GateRules {
  std::shared_ptr<const ClusterSecret> secret;  // null: not asked for
  // The identity of this listener, as a URI (roles.h), which is part of its proof; with
  // certificates, hello must then name a worker that the peer's certificate names. Empty: names are
  // not looked at.
  std::string name;
  // Told of each peer that is refused, instead of the log: its address, the name it gave or
  // nothing, and why.
  // Thread: the transport's; must not block.
  std::function<void(const std::string&, const std::string&, const absl::Status&)> on_refused;
};

// The peer of one link as its connection shows it.
struct GatePeer {
  bool has_certificate = false;
  std::vector<std::string> worker_names;  // that its certificate proves
  // Called once, before `accept`.
  std::function<void()> on_admitted;
};

// Whether a gate has anything to ask of this peer.
bool NeedsGate(const GateRules& rules, const GatePeer& peer);

// The handler for a new link, which `accept` gets once its peer has proved who it is; afterwards
// frames pass straight on. A peer that does not is refused with UNAUTHENTICATED or
// PERMISSION_DENIED and named in the log, at most every kRefusalLogInterval.
std::unique_ptr<LinkHandler> MakeGate(std::unique_ptr<Link> link, GateRules rules, GatePeer peer,
                                      AcceptCallback accept);

}  // namespace tutti::transport
