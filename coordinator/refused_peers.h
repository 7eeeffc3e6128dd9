// Peers that were turned away, for people who ask why a worker does not join.
//
// One entry for each host, name and reason; a peer that tries again and again has one. What stands
// in an entry comes from strangers: it is cut, and only printable.  Thread: one.
#pragma once

#include <list>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "tutti/v1/cluster.pb.h"

namespace tutti::coordinator {

class RefusedPeers {
 public:
  // `peer`: its address with the port it came from; `worker_id`: the name it gave, or nothing.
  void Add(std::string_view peer, std::string_view worker_id, std::string_view reason, Instant now);
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;

 private:
  struct Entry {
    v1::RefusedPeer told;
    std::string host;
    Instant at;
  };
  std::list<Entry> entries_;  // the latest first; at most kRefusedPeersMax
};

}  // namespace tutti::coordinator
