#include "coordinator/fleet/fault_memory.h"

#include <algorithm>

#include "coordinator/limits.h"

namespace tutti::coordinator {

// When ids are so many, the oldest by name goes; nothing depends on its being remembered.
FaultMemory::Conduct* FaultMemory::ConductOf(const std::string& worker) {
  if (workers_.size() >= kFaultsKept && !workers_.contains(worker)) {
    workers_.erase(workers_.begin());
  }
  return &workers_[worker];
}

void FaultMemory::Pause(Conduct* conduct, Instant now) {
  conduct->pause_end = now + FormBackOff(std::max(conduct->failures, conduct->lost_early));
}

void FaultMemory::OnFailure(const std::string& worker, Instant now) {
  Conduct* const conduct = ConductOf(worker);
  ++conduct->failures;
  Pause(conduct, now);
}

void FaultMemory::OnLostEarly(const std::string& worker, Instant now) {
  Conduct* const conduct = ConductOf(worker);
  ++conduct->lost_early;
  Pause(conduct, now);
}

void FaultMemory::OnServing(const std::string& worker) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.lost_early = 0;
}

void FaultMemory::OnServedLong(const std::string& worker) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) found->second.failures = 0;
}

Instant FaultMemory::PauseEnd(const std::string& worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? Instant() : found->second.pause_end;
}

void FaultMemory::OnLeft(const std::string& worker, Instant now) {
  std::deque<Instant>& left = ConductOf(worker)->left;
  left.push_back(now);
  if (left.size() > 2) left.pop_front();
}

Instant FaultMemory::ComesAndGoesUntil(const std::string& worker) const {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return {};
  const std::deque<Instant>& left = found->second.left;
  return left.size() == 2 ? left.front() + kComeAndGoTime : Instant();
}

void FaultMemory::OnLinkFailure(const std::string& from, const std::string& to,
                                const std::string& why, Instant now) {
  std::erase_if(links_, [&](const auto& entry) {
    return now >= entry.second.avoided_until + kLinkAvoidedTime;
  });
  if (links_.size() >= kFaultsKept) links_.erase(links_.begin());
  LinkFault& fault = links_[{from, to}];
  ++fault.failures;
  fault.why = why;
  fault.avoided_until = now + kLinkAvoidedTime;
  fault.pause_end = now + FormBackOff(fault.failures);
}

void FaultMemory::OnLinkWorked(const std::string& from, const std::string& to) {
  links_.erase({from, to});
}

void FaultMemory::ForgetLinksOf(const std::string& worker) {
  std::erase_if(links_, [&](const auto& entry) {
    return entry.first.first == worker || entry.first.second == worker;
  });
}

const FaultMemory::LinkFault* FaultMemory::FindLinkFault(const std::string& from,
                                                         const std::string& to, Instant now) const {
  const auto found = links_.find({from, to});
  if (found == links_.end() || now >= found->second.avoided_until) return nullptr;
  return &found->second;
}

}  // namespace tutti::coordinator
