// A lease whose judge is etcd: coordinators of several machines, and leaders that are stopped or
// cut off.
//
// The leader holds a key that is bound to a lease of etcd's, and renews that. Who cannot renew it
// commands nobody from kLeaseMargin before the moment at which it may run out, counted from before
// the last renewal was sent. Who stands by takes the key when it is gone; where it sees that the
// leader's process has ended it has etcd end the lease at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "coordinator/service/etcd_calls.h"
#include "coordinator/service/leader_lease.h"
#include "coordinator/service/leader_watch.h"

namespace tutti::coordinator {

class EtcdLease : public LeaderLease {
 public:
  struct Options {
    std::string name;   // this coordinator's, [A-Za-z0-9._-]{1,128}
    std::string about;  // what is asked, for people
    int64_t seconds = 0;
    std::function<int64_t()> now = WallSeconds;
  };
  // REQUIRES: `clock` outlives this; options.seconds >= kEtcdLeaseSecondsMin
  EtcdLease(Options options, std::unique_ptr<EtcdCalls> calls, std::unique_ptr<LeaderSight> sight,
            const Clock* clock);

  absl::StatusOr<std::optional<uint32_t>> TryAcquire() override;
  absl::Status Keep() override;
  void Resign() override;
  Duration keep_interval() const override;
  const std::string& leader() const override { return leader_; }
  const std::string& about() const override { return options_.about; }

 private:
  // The lease runs for so long from `sent` on, when it was asked for.
  void Holds(Instant sent, int64_t seconds);
  absl::StatusOr<std::optional<uint32_t>> Campaign(const EtcdView& view);

  const Options options_;
  const std::unique_ptr<EtcdCalls> calls_;
  const std::unique_ptr<LeaderSight> sight_;
  const Clock* const clock_;
  int64_t lease_ = 0;  // etcd's id of it; 0: none
  std::string leader_;
};

}  // namespace tutti::coordinator
