// The announced addresses that this worker may dial: its operator's networks and names
// (--peer-network, --peer-name), or else those around its own address.
//
// Thread: the one that fills it; constant after that, and any thread may read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ip_network.h"
#include "base/status.h"
#include "transport/announced_address.h"

namespace tutti::worker {

class PeerPolicy {
 public:
  // 10.0.0.0/8. Errors of IpNetwork::Parse.
  absl::Status AddNetwork(std::string_view text);
  // *.workers.svc: a host's name, where "*" stands for anything within one label. INVALID_ARGUMENT
  // for what no name can be, and for a pattern that all names of a length match.
  absl::Status AddName(std::string_view pattern);
  bool empty() const { return networks_.empty() && names_.empty(); }

  // The policy of a worker whose operator has given neither: the private network of its own address
  // (10.0.0.7: 10.0.0.0/8; 127.0.0.1: this machine), or the domain of its own name, where that has
  // at least two labels (w0.workers.svc: *.workers.svc). Of an address of the Internet: that
  // machine alone.
  static PeerPolicy Around(const transport::AnnouncedAddress& own);

  // PERMISSION_DENIED lists what may be dialled.
  absl::Status Check(const transport::AnnouncedAddress& address) const;
  // "10.0.0.0/8, *.workers.svc"; "nothing".
  std::string ToString() const;

 private:
  std::vector<IpNetwork> networks_;
  std::vector<std::string> names_;  // in small letters
};

}  // namespace tutti::worker
