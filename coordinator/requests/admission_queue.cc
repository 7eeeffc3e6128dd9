#include "coordinator/requests/admission_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fail_point.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

std::pair<Instant, uint64_t> Place(const Sequence& sequence) {
  return {sequence.due, sequence.arrival};
}

// The tokens it is expected to take until it has ended.
int64_t Expected(const Sequence& sequence) {
  return sequence.total() + std::min(sequence.request.max_tokens, kExpectedOutputTokens);
}

}  // namespace

void AdmissionQueue::Push(Sequence* sequence) {
  Class& in = classes_[sequence->request.priority];
  ++size_;
  ++version_;
  if (sequence->resumed) {
    in.resumed.emplace(sequence->arrival, sequence);
    ++resumed_;
    return;
  }
  Owner* const owner = OwnerOf(&in, sequence->request);
  Leave(&in, owner);
  CHECK(owner->waiting.emplace(Place(*sequence), sequence).second)
      << "request " << sequence->request.id << " waits already";
  Enter(&in, owner);
  shares_.Add(sequence);
}

void AdmissionQueue::Erase(Sequence* sequence) {
  const auto found = classes_.find(sequence->request.priority);
  CHECK(found != classes_.end());
  Class& in = found->second;
  --size_;
  ++version_;
  if (sequence->resumed) {
    CHECK(in.resumed.erase(sequence->arrival) == 1);
    --resumed_;
  } else {
    Owner* const owner = OwnerOf(&in, sequence->request);
    Leave(&in, owner);
    CHECK(owner->waiting.erase(Place(*sequence)) == 1)
        << "request " << sequence->request.id << " does not wait";
    Enter(&in, owner);
    shares_.Remove(sequence);
    ForgetIdle(&in);
  }
  // No owner waits, so none is behind another: all begin anew.
  if (in.empty()) classes_.erase(found);
}

Sequence* AdmissionQueue::Front() {
  if (classes_.empty()) return nullptr;
  Class& in = classes_.begin()->second;
  if (!in.resumed.empty()) return in.resumed.begin()->second;
  AdvanceClock(&in);
  return in.level.begin()->second->waiting.begin()->second;
}

Sequence* AdmissionQueue::FrontOfFewest() {
  if (classes_.empty()) return nullptr;
  Class& in = classes_.begin()->second;
  if (!in.resumed.empty()) return in.resumed.begin()->second;  // no newcomer overtakes it
  AdvanceClock(&in);
  return in.fewest.begin()->second->waiting.begin()->second;
}

void AdmissionQueue::Pop(Sequence* sequence) {
  CHECK(sequence != nullptr);
  if (!sequence->resumed || TUTTI_FAIL_POINT("coordinator.charge_replay")) {
    Class& in = classes_.begin()->second;
    sequence->charged = Expected(*sequence);
    charged_ += sequence->charged;
    Charge(&in, OwnerOf(&in, sequence->request), sequence->charged);
  }
  CountBound(sequence->request, 1);
  Erase(sequence);
  sequence->resumed = false;
}

void AdmissionQueue::TakePlace(const Sequence& sequence) { CountBound(sequence.request, 1); }

void AdmissionQueue::GiveBack(const Sequence& sequence) { CountBound(sequence.request, -1); }

void AdmissionQueue::ChargeActual(Sequence* sequence) {
  const int64_t taken = sequence->first_planned_at.has_value() ? sequence->total() : 0;
  const int64_t difference = taken - std::exchange(sequence->charged, 0);
  charged_ += difference;
  const auto found = classes_.find(sequence->request.priority);
  if (found == classes_.end()) return;
  const auto owner = found->second.owners.find(sequence->request.owner_id());
  if (owner == found->second.owners.end()) return;  // forgotten: others have caught up
  Charge(&found->second, owner->second.get(), difference);
}

size_t AdmissionQueue::owners() const {
  size_t count = 0;
  for (const auto& [priority, in] : classes_) count += in.owners.size();
  return count;
}

AdmissionQueue::Owner* AdmissionQueue::OwnerOf(Class* in, const Request& request) {
  const OwnerId id = request.owner_id();
  std::unique_ptr<Owner>& owner = in->owners[id];
  if (owner == nullptr) {
    owner = std::make_unique<Owner>();
    owner->id = id;
    owner->served = in->clock;
    const auto bound = bound_.find({request.priority, id});
    if (bound != bound_.end()) owner->bound = bound->second;
  }
  return owner.get();
}

void AdmissionQueue::CountBound(const Request& request, int32_t change) {
  const std::pair key(request.priority, request.owner_id());
  const auto bound = bound_.try_emplace(key, 0).first;
  bound->second += change;
  CHECK(bound->second >= 0) << "request " << request.id;
  const int32_t count = bound->second;
  if (count == 0) bound_.erase(bound);
  const auto in = classes_.find(key.first);
  if (in == classes_.end()) return;
  const auto owner = in->second.owners.find(key.second);
  if (owner == in->second.owners.end()) return;
  ++version_;
  Leave(&in->second, owner->second.get());
  owner->second->bound = count;
  Enter(&in->second, owner->second.get());
}

// Takes the owner out of the order while it changes; Enter puts it back.
void AdmissionQueue::Leave(Class* in, Owner* owner) {
  if (owner->waiting.empty()) return;
  in->by_served.erase({owner->served, owner->id});
  const auto& [due, arrival] = owner->waiting.begin()->first;
  in->level.erase({due, arrival});
  in->fewest.erase({owner->bound, due, arrival});
}

void AdmissionQueue::EnterLevel(Class* in, Owner* owner) {
  const auto& [due, arrival] = owner->waiting.begin()->first;
  in->level.emplace(std::pair(due, arrival), owner);
  in->fewest.emplace(std::tuple(owner->bound, due, arrival), owner);
}

void AdmissionQueue::Enter(Class* in, Owner* owner) {
  owner->served = std::max(owner->served, in->clock);
  if (owner->waiting.empty()) return;
  in->by_served.emplace(owner->served, owner->id);
  if (owner->served <= in->clock + kLevelTokens) EnterLevel(in, owner);
}

void AdmissionQueue::AdvanceClock(Class* in) {
  const int64_t least = in->by_served.begin()->first;
  if (least <= in->clock) return;
  auto next = in->by_served.upper_bound({in->clock + kLevelTokens, absl::Uint128Max()});
  in->clock = least;
  for (; next != in->by_served.end() && next->first <= in->clock + kLevelTokens; ++next) {
    EnterLevel(in, in->owners.at(next->second).get());
  }
}

// Rarely, so that each costs a constant. First the owners that have nothing waiting and would
// begin at the clock anyway; then, if they are still too many, all that have nothing waiting.
void AdmissionQueue::ForgetIdle(Class* in) {
  const size_t idle = in->owners.size() - in->by_served.size();
  if (idle <= std::max(kIdleOwnersMax, in->by_served.size())) return;
  absl::erase_if(in->owners, [&](const auto& entry) {
    return entry.second->waiting.empty() && entry.second->served <= in->clock;
  });
  if (in->owners.size() - in->by_served.size() <= kIdleOwnersMax / 2) return;
  absl::erase_if(in->owners, [](const auto& entry) { return entry.second->waiting.empty(); });
}

void AdmissionQueue::Charge(Class* in, Owner* owner, int64_t tokens) {
  ++version_;
  Leave(in, owner);
  owner->served += tokens;
  Enter(in, owner);
}

}  // namespace tutti::coordinator
