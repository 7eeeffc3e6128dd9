#include "coordinator/requests/admission_shares.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::coordinator {
namespace {

// Whether no output of the request has been bound: the first is bound first.
bool WaitsWhole(const std::pair<const std::pair<int32_t, RequestId>, std::vector<Sequence*>>& one) {
  return std::any_of(one.second.begin(), one.second.end(), [&](const Sequence* sequence) {
    return sequence->request.id == one.first.second;
  });
}

}  // namespace

void AdmissionShares::Add(Sequence* sequence) {
  const Request& request = sequence->request;
  Owner& owner = owners_[request.owner_id()];
  ++owner.places;
  owner.requests[{request.priority, request.of()}].push_back(sequence);
}

void AdmissionShares::Remove(Sequence* sequence) {
  const Request& request = sequence->request;
  const auto owner = owners_.find(request.owner_id());
  CHECK(owner != owners_.end()) << "request " << request.id;
  Requests& requests = owner->second.requests;
  const auto found = requests.find({request.priority, request.of()});
  CHECK(found != requests.end() && std::erase(found->second, sequence) == 1)
      << "request " << request.id;
  if (found->second.empty()) requests.erase(found);
  if (--owner->second.places == 0) owners_.erase(owner);
}

std::vector<Sequence*> AdmissionShares::FindGivingWay(const Request& newcomer, int64_t places,
                                                      int64_t lacking) const {
  std::vector<Candidate> candidates;
  int64_t own = places;
  for (const auto& [id, owner] : owners_) {
    if (id == newcomer.owner_id()) {
      own += owner.places;
    } else {
      candidates.push_back({owner.places, owner.requests.rbegin(), owner.requests.rend()});
    }
  }
  std::vector<Sequence*> giving_way;
  while (lacking > static_cast<int64_t>(giving_way.size())) {
    Candidate* most = nullptr;
    for (Candidate& one : candidates) {
      while (one.newest != one.end && !WaitsWhole(*one.newest)) ++one.newest;
      const bool can = one.newest != one.end && one.newest->first.first >= newcomer.priority;
      if (can && one.places > own && (most == nullptr || one.places > most->places)) most = &one;
    }
    if (most == nullptr) return {};
    const std::vector<Sequence*>& outputs = most->newest->second;
    giving_way.insert(giving_way.end(), outputs.begin(), outputs.end());
    most->places -= static_cast<int64_t>(outputs.size());
    ++most->newest;
  }
  return giving_way;
}

}  // namespace tutti::coordinator
