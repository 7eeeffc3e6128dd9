#include "coordinator/service/etcd_lease.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/limits.h"
#include "spdlog/spdlog.h"

namespace tutti::coordinator {

EtcdLease::EtcdLease(Options options, std::unique_ptr<EtcdCalls> calls,
                     std::unique_ptr<LeaderSight> sight, const Clock* clock)
    : options_(std::move(options)),
      calls_(std::move(calls)),
      sight_(std::move(sight)),
      clock_(clock) {}

void EtcdLease::Holds(Instant sent, int64_t seconds) {
  time_.Set(sent + std::chrono::seconds(std::min(seconds, options_.seconds)) - kLeaseMargin);
}

absl::StatusOr<std::optional<uint32_t>> EtcdLease::TryAcquire() {
  TUTTI_ASSIGN_OR_RETURN(const EtcdView view, calls_->Look(kEtcdPatience));
  if (!view.leader.has_value()) return Campaign(view);
  if (lease_ != 0 && view.leader->lease == lease_) {
    // The campaign was won, and its answer lost.
    TUTTI_RETURN_IF_ERROR(Keep());
    return view.leader->number;
  }
  leader_ = view.leader->name;
  if (sight_->HasEnded(leader_, view.leader->lease)) {
    spdlog::info("the process of {} has ended; ending its lease", leader_);
    const absl::Status ended = calls_->Revoke(view.leader->lease, kEtcdPatience);
    if (!ended.ok() && !absl::IsNotFound(ended)) return ended;
    EtcdView without = view;
    without.leader.reset();
    return Campaign(without);
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<uint32_t>> EtcdLease::Campaign(const EtcdView& view) {
  TUTTI_ASSIGN_OR_RETURN(const uint32_t number, NextIncarnation(view.last_number, options_.now()));
  const Instant sent = clock_->Now();
  TUTTI_ASSIGN_OR_RETURN(lease_, calls_->Grant(options_.seconds, kEtcdPatience));
  TUTTI_ASSIGN_OR_RETURN(const bool won,
                         calls_->Campaign(view, {number, options_.name, lease_}, kEtcdPatience));
  if (won) {
    Holds(sent, options_.seconds);
    return number;
  }
  // Another was quicker. A lease that nobody gives back runs out by itself.
  (void)calls_->Revoke(std::exchange(lease_, 0), kEtcdPatience);
  return std::nullopt;
}

absl::Status EtcdLease::Keep() {
  const Instant sent = clock_->Now();
  const Duration left =
      time_.until() == Instant(Duration::min()) ? kEtcdPatience : time_.until() - sent;
  const absl::StatusOr<int64_t> seconds =
      calls_->KeepAlive(lease_, std::min<Duration>(kEtcdPatience, left));
  if (absl::IsNotFound(seconds.status())) {
    return absl::AbortedError("etcd has ended it; another may lead");
  }
  if (!seconds.ok()) return seconds.status();
  Holds(sent, *seconds);
  return absl::OkStatus();
}

void EtcdLease::Resign() {
  time_.Set(Instant());
  if (lease_ != 0) (void)calls_->Revoke(std::exchange(lease_, 0), kEtcdPatience);
}

Duration EtcdLease::keep_interval() const {
  return std::chrono::seconds(options_.seconds) / kLeaseRenewals;
}

}  // namespace tutti::coordinator
