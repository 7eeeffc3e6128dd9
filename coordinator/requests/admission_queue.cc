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
  Tenant* const tenant = TenantOf(&in, sequence->request);
  Leave(&in, tenant);
  CHECK(tenant->waiting.emplace(Place(*sequence), sequence).second)
      << "request " << sequence->request.id << " waits already";
  Enter(&in, tenant);
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
    Tenant* const tenant = TenantOf(&in, sequence->request);
    Leave(&in, tenant);
    CHECK(tenant->waiting.erase(Place(*sequence)) == 1)
        << "request " << sequence->request.id << " does not wait";
    Enter(&in, tenant);
    shares_.Remove(sequence);
    ForgetIdle(&in);
  }
  // No tenant waits, so none is behind another: all begin anew.
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
    Charge(&in, TenantOf(&in, sequence->request), sequence->charged);
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
  const auto tenant = found->second.tenants.find(sequence->request.tenant_id());
  if (tenant == found->second.tenants.end()) return;  // forgotten: others have caught up
  Charge(&found->second, tenant->second.get(), difference);
}

size_t AdmissionQueue::tenants() const {
  size_t count = 0;
  for (const auto& [priority, in] : classes_) count += in.tenants.size();
  return count;
}

AdmissionQueue::Tenant* AdmissionQueue::TenantOf(Class* in, const Request& request) {
  const TenantId id = request.tenant_id();
  std::unique_ptr<Tenant>& tenant = in->tenants[id];
  if (tenant == nullptr) {
    tenant = std::make_unique<Tenant>();
    tenant->id = id;
    tenant->served = in->clock;
    const auto bound = bound_.find({request.priority, id});
    if (bound != bound_.end()) tenant->bound = bound->second;
  }
  return tenant.get();
}

void AdmissionQueue::CountBound(const Request& request, int32_t change) {
  const std::pair key(request.priority, request.tenant_id());
  const auto bound = bound_.try_emplace(key, 0).first;
  bound->second += change;
  CHECK(bound->second >= 0) << "request " << request.id;
  const int32_t count = bound->second;
  if (count == 0) bound_.erase(bound);
  const auto in = classes_.find(key.first);
  if (in == classes_.end()) return;
  const auto tenant = in->second.tenants.find(key.second);
  if (tenant == in->second.tenants.end()) return;
  ++version_;
  Leave(&in->second, tenant->second.get());
  tenant->second->bound = count;
  Enter(&in->second, tenant->second.get());
}

// Takes the tenant out of the order while it changes; Enter puts it back.
void AdmissionQueue::Leave(Class* in, Tenant* tenant) {
  if (tenant->waiting.empty()) return;
  in->by_served.erase({tenant->served, tenant->id});
  const auto& [due, arrival] = tenant->waiting.begin()->first;
  in->level.erase({due, arrival});
  in->fewest.erase({tenant->bound, due, arrival});
}

void AdmissionQueue::EnterLevel(Class* in, Tenant* tenant) {
  const auto& [due, arrival] = tenant->waiting.begin()->first;
  in->level.emplace(std::pair(due, arrival), tenant);
  in->fewest.emplace(std::tuple(tenant->bound, due, arrival), tenant);
}

void AdmissionQueue::Enter(Class* in, Tenant* tenant) {
  tenant->served = std::max(tenant->served, in->clock);
  if (tenant->waiting.empty()) return;
  in->by_served.emplace(tenant->served, tenant->id);
  if (tenant->served <= in->clock + kLevelTokens) EnterLevel(in, tenant);
}

void AdmissionQueue::AdvanceClock(Class* in) {
  const int64_t least = in->by_served.begin()->first;
  if (least <= in->clock) return;
  auto next = in->by_served.upper_bound({in->clock + kLevelTokens, absl::Uint128Max()});
  in->clock = least;
  for (; next != in->by_served.end() && next->first <= in->clock + kLevelTokens; ++next) {
    EnterLevel(in, in->tenants.at(next->second).get());
  }
}

// Rarely, so that each costs a constant. First the tenants that have nothing waiting and would
// begin at the clock anyway; then, if they are still too many, all that have nothing waiting.
void AdmissionQueue::ForgetIdle(Class* in) {
  const size_t idle = in->tenants.size() - in->by_served.size();
  if (idle <= std::max(kIdleTenantsMax, in->by_served.size())) return;
  absl::erase_if(in->tenants, [&](const auto& entry) {
    return entry.second->waiting.empty() && entry.second->served <= in->clock;
  });
  if (in->tenants.size() - in->by_served.size() <= kIdleTenantsMax / 2) return;
  absl::erase_if(in->tenants, [](const auto& entry) { return entry.second->waiting.empty(); });
}

void AdmissionQueue::Charge(Class* in, Tenant* tenant, int64_t tokens) {
  ++version_;
  Leave(in, tenant);
  tenant->served += tokens;
  Enter(in, tenant);
}

}  // namespace tutti::coordinator
