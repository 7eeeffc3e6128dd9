// The flags that say who else may lead the cluster, and the lease that they ask for.
//
// Thread: the main one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "coordinator/limits.h"
#include "coordinator/service/leader_lease.h"
#include "transport/certificates.h"

namespace tutti {
class FlagSet;
}  // namespace tutti

namespace tutti::coordinator {

struct LeaseFlags {
  std::string lock_file;
  std::vector<std::string> etcd;
  std::string etcd_prefix;
  int64_t etcd_seconds = kEtcdLeaseSeconds;
  transport::TlsFiles etcd_tls;
  std::string name;                 // "": the host's
  std::vector<std::string> others;  // NAME=ADDRESS
};

void AddLeaseFlags(FlagSet* set, LeaseFlags* flags);

// Null: no flag asks for one. INVALID_ARGUMENT names the flag. Asks nobody yet.
absl::StatusOr<std::shared_ptr<LeaderLease>> MakeLease(const LeaseFlags& flags,
                                                       const std::string& cluster_id,
                                                       const Clock* clock);

}  // namespace tutti::coordinator
