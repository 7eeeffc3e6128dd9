// The calls of coordinators to etcd. Two keys of a cluster: LEADER, which is bound to a lease of
// etcd's and so ends with it, and NUMBER, which stays: the last leader's number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::coordinator {

struct EtcdView {
  struct Leader {
    uint32_t number = 0;
    std::string name;
    int64_t lease = 0;  // etcd's id of it
  };
  std::optional<Leader> leader;
  uint32_t last_number = 0;          // 0: nobody has led yet
  int64_t last_number_revision = 0;  // when it was written; 0: never
};

// Errors name the server. Each call ends within its patience.  Thread: one.
class EtcdCalls {
 public:
  virtual ~EtcdCalls() = default;

  // Both keys, of one moment. DATA_LOSS: they hold what no coordinator wrote.
  virtual absl::StatusOr<EtcdView> Look(Duration patience) = 0;
  // A lease of so many seconds at least: its id.
  virtual absl::StatusOr<int64_t> Grant(int64_t seconds, Duration patience) = 0;
  // The seconds until it runs out now. NOT_FOUND: it has.
  virtual absl::StatusOr<int64_t> KeepAlive(int64_t lease, Duration patience) = 0;
  // Ends the lease with the keys that are bound to it. NOT_FOUND: it has run out.
  virtual absl::Status Revoke(int64_t lease, Duration patience) = 0;
  // Writes both keys if there is no leader and NUMBER is as in `view`; whether it did.
  virtual absl::StatusOr<bool> Campaign(const EtcdView& view, const EtcdView::Leader& self,
                                        Duration patience) = 0;
};

}  // namespace tutti::coordinator
