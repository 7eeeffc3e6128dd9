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

// A stranger's text, cut to kRefusedPeerBytesMax, with "?" for what cannot be printed.
std::string Printable(std::string_view text);

class RefusedPeers {
 public:
  // `peer`: its address with the port it came from; `worker_id`: the name it gave, or nothing.
  // True: the log should tell, for nobody there was refused for this before, as far as is known,
  // and it has not told of too many lately.
  bool Add(std::string_view peer, std::string_view worker_id, std::string_view reason, Instant now);
  void FillStatus(Instant now, v1::GetStatusResponse* status) const;

 private:
  struct Entry {
    v1::RefusedPeer told;
    std::string host;
    Instant at;
  };
  bool MayTell(Instant now);

  Instant lines_since_{};
  int lines_ = 0;
  std::list<Entry> entries_;  // the latest first; at most kRefusedPeersMax
};

}  // namespace tutti::coordinator
