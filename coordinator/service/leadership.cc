#include "coordinator/service/leadership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/thread.h"
#include "coordinator/limits.h"
#include "spdlog/spdlog.h"

namespace tutti::coordinator {

Leadership::Leadership(LeaderLease* lease, const Clock* clock, Callbacks callbacks)
    : lease_(lease), clock_(clock), callbacks_(std::move(callbacks)) {}

Leadership::~Leadership() { Stop(); }

void Leadership::Start() {
  thread_ = StartThread("the leadership", [this] { Run(); });
}

void Leadership::Stop() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    stopping_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  if (leads_ && !std::exchange(lost_, true)) lease_->Resign();
}

void Leadership::Run() {
  while (true) {
    const Instant next = Turn();
    const MutexLock lock(&mutex_);
    while (!stop_ && clock_->Now() < next) stopping_.WaitUntil(&mutex_, next);
    if (stop_) return;
  }
}

Instant Leadership::Turn() {
  if (lost_) return kInstantNever;
  const Instant now = clock_->Now();
  if (!leads_) return StandBy(now);
  if (!lease_->time().Holds(now)) {
    return Lose("it was not renewed in time; this process stood still, or nobody answered");
  }
  const absl::Status kept = lease_->Keep();
  if (absl::IsAborted(kept)) return Lose(std::string(kept.message()));
  if (!kept.ok()) spdlog::warn("cannot renew {}: {}", lease_->about(), std::string(kept.message()));
  return std::min(clock_->Now() + lease_->keep_interval(), lease_->time().until());
}

Instant Leadership::StandBy(Instant now) {
  const absl::StatusOr<std::optional<uint32_t>> number = lease_->TryAcquire();
  if (!number.ok()) {
    SayWhoLeads(absl::StrCat("cannot ask ", lease_->about(), ": ", number.status().message()));
    return now + kLeaseRetryInterval;
  }
  if (!number->has_value()) {
    const std::string& leader = lease_->leader();
    SayWhoLeads(absl::StrCat(leader.empty() ? "another" : leader, " leads, by ", lease_->about()));
    return now + kStandbyLookInterval;
  }
  leads_ = true;
  callbacks_.on_lead(**number);
  return std::min(now + lease_->keep_interval(), lease_->time().until());
}

void Leadership::SayWhoLeads(const std::string& why) {
  if (said_ == why) return;
  said_ = why;
  callbacks_.on_standing_by(why);
}

Instant Leadership::Lose(const std::string& why) {
  lost_ = true;
  callbacks_.on_lost(absl::StrCat(lease_->about(), " is lost: ", why));
  return kInstantNever;
}

}  // namespace tutti::coordinator
