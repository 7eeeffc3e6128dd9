// The right to command the workers of a cluster, which one coordinator has at a time. The others
// stand by for it (docs/decisions/0044-who-leads.md). Workers' leases are something else.
//
// A lease comes with a number, larger than that of everybody who had it before: the coordinator's
// incarnation. It may run out: whoever has it commands nobody after LeaseTime::until().
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::coordinator {

// The time until which this process may command.  Thread: any; one writes.
class LeaseTime {
 public:
  void Set(Instant until) { until_ = until.time_since_epoch().count(); }
  bool Holds(Instant now) const { return now.time_since_epoch().count() < until_; }
  Instant until() const { return Instant(Duration(until_.load())); }

 private:
  std::atomic<Duration::rep> until_{Duration::min().count()};
};

// Thread: that of Leadership, but for time() and about().
class LeaderLease {
 public:
  virtual ~LeaderLease() = default;

  // One attempt to become the leader, at most kEtcdPatience long: the number, or none while another
  // leads. An error: it could not be found out; the attempt may be made again.
  virtual absl::StatusOr<std::optional<uint32_t>> TryAcquire() = 0;
  // Renews the lease. ABORTED: it is lost. Another error: it was not renewed, and still holds until
  // time() says otherwise.  REQUIRES: TryAcquire has given a number
  virtual absl::Status Keep() = 0;
  // Gives the lease to whoever stands by.
  virtual void Resign() = 0;

  // The pause between two calls of Keep.
  virtual Duration keep_interval() const = 0;
  // The leader at the last attempt, for people; "": not known.
  virtual const std::string& leader() const = 0;
  // The object that is asked for, for people: "the lock /run/tutti/leader".
  virtual const std::string& about() const = 0;
  const LeaseTime& time() const { return time_; }

 protected:
  LeaseTime time_;
};

// The number of a new leader: larger than the last one, and than the seconds since 1970 when `now`,
// so that it is above all where the last one has been forgotten, and above what coordinators
// without a lease give themselves. OUT_OF_RANGE: there is none.
absl::StatusOr<uint32_t> NextIncarnation(uint32_t last, int64_t now);

}  // namespace tutti::coordinator
