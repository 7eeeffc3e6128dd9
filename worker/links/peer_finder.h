// The address at which to dial another worker: by the operator's table, or, where the operator has
// left that open, at the address that it announced to the coordinator, as far as this worker may
// dial that.
//
// Thread: the executor's.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "proto/peer_messages.h"
#include "transport/link.h"
#include "worker/links/peer_policy.h"
#include "worker/links/peer_table.h"

namespace tutti::worker {

struct PeerRules {
  PeerTable table;
  // Empty: what is around this worker's own address.
  PeerPolicy policy = {};
  // Whether listeners prove their names. Announced addresses of others are not dialled.
  bool peers_are_proved = false;
};

class PeerFinder {
 public:
  explicit PeerFinder(PeerRules rules) : rules_(std::move(rules)) {}

  // The addresses of this shard's neighbours, in place of those before; `own` is what this worker
  // has announced itself. Nothing is checked before it is looked for.
  void Learn(const v1::AssignShard& shard, const std::string& own);

  struct Found {
    transport::DialTarget target;
    std::string address;  // as people write it
  };
  // NOT_FOUND: it is in no table and has announced nothing. INVALID_ARGUMENT: its address is none.
  // PERMISSION_DENIED: this worker may not dial that, and how its operator would allow it.
  absl::StatusOr<Found> Find(const std::string& worker_id) const;

 private:
  bool TakesAnnounced() const {
    return rules_.peers_are_proved && (rules_.table.size() == 0 || !rules_.policy.empty());
  }
  absl::StatusOr<Found> FindAnnounced(const std::string& worker_id,
                                      const std::string& announced) const;

  const PeerRules rules_;
  std::string own_;
  std::map<std::string, std::string> announced_;  // by worker id
};

}  // namespace tutti::worker
