#include "coordinator/admission_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

std::pair<Instant, uint64_t> Place(const Sequence& sequence) {
  return {sequence.due, sequence.arrival};
}

absl::uint128 IdOf(const Sequence& sequence) {
  return absl::MakeUint128(sequence.request.tenant.high, sequence.request.tenant.low);
}

// The tokens it is expected to take until it has ended.
int64_t Expected(const Sequence& sequence) {
  return sequence.total() + std::min(sequence.request.max_tokens, kExpectedOutputTokens);
}

}  // namespace

void AdmissionQueue::Push(Sequence* sequence) {
  Class& in = classes_[sequence->request.priority];
  Tenant* const tenant = TenantOf(&in, IdOf(*sequence));
  Leave(&in, tenant);
  CHECK(tenant->waiting.emplace(Place(*sequence), sequence).second)
      << "request " << sequence->request.id << " waits already";
  Enter(&in, tenant);
  ++size_;
  ++version_;
  shares_.Add(sequence);
}

void AdmissionQueue::Erase(Sequence* sequence) {
  const auto found = classes_.find(sequence->request.priority);
  CHECK(found != classes_.end());
  Class& in = found->second;
  Tenant* const tenant = TenantOf(&in, IdOf(*sequence));
  Leave(&in, tenant);
  CHECK(tenant->waiting.erase(Place(*sequence)) == 1)
      << "request " << sequence->request.id << " does not wait";
  Enter(&in, tenant);
  --size_;
  ++version_;
  shares_.Remove(sequence);
  ForgetIdle(&in);
  // No tenant waits, so none is behind another: all begin anew.
  if (in.by_served.empty()) classes_.erase(found);
}

Sequence* AdmissionQueue::Front() {
  if (classes_.empty()) return nullptr;
  Class& in = classes_.begin()->second;
  AdvanceClock(&in);
  return in.level.begin()->second->waiting.begin()->second;
}

void AdmissionQueue::PopFront() {
  Sequence* const sequence = Front();
  CHECK(sequence != nullptr);
  Class& in = classes_.begin()->second;
  sequence->charged = Expected(*sequence);
  Charge(&in, TenantOf(&in, IdOf(*sequence)), sequence->charged);
  Erase(sequence);
}

void AdmissionQueue::ChargeActual(Sequence* sequence) {
  const int64_t taken = sequence->first_planned_at.has_value() ? sequence->total() : 0;
  const int64_t difference = taken - std::exchange(sequence->charged, 0);
  const auto found = classes_.find(sequence->request.priority);
  if (found == classes_.end()) return;
  const auto tenant = found->second.tenants.find(IdOf(*sequence));
  if (tenant == found->second.tenants.end()) return;  // forgotten: others have caught up
  Charge(&found->second, tenant->second.get(), difference);
}

size_t AdmissionQueue::tenants() const {
  size_t count = 0;
  for (const auto& [priority, in] : classes_) count += in.tenants.size();
  return count;
}

AdmissionQueue::Tenant* AdmissionQueue::TenantOf(Class* in, TenantId id) {
  std::unique_ptr<Tenant>& tenant = in->tenants[id];
  if (tenant == nullptr) {
    tenant = std::make_unique<Tenant>();
    tenant->id = id;
    tenant->served = in->clock;
  }
  return tenant.get();
}

// Takes the tenant out of the order while it changes; Enter puts it back.
void AdmissionQueue::Leave(Class* in, Tenant* tenant) {
  if (tenant->waiting.empty()) return;
  in->by_served.erase({tenant->served, tenant->id});
  in->level.erase(tenant->waiting.begin()->first);
}

void AdmissionQueue::Enter(Class* in, Tenant* tenant) {
  tenant->served = std::max(tenant->served, in->clock);
  if (tenant->waiting.empty()) return;
  in->by_served.emplace(tenant->served, tenant->id);
  if (tenant->served <= in->clock + kLevelTokens) {
    in->level.emplace(tenant->waiting.begin()->first, tenant);
  }
}

void AdmissionQueue::AdvanceClock(Class* in) {
  const int64_t least = in->by_served.begin()->first;
  if (least <= in->clock) return;
  auto next = in->by_served.upper_bound({in->clock + kLevelTokens, absl::Uint128Max()});
  in->clock = least;
  for (; next != in->by_served.end() && next->first <= in->clock + kLevelTokens; ++next) {
    Tenant* const tenant = in->tenants.at(next->second).get();
    in->level.emplace(tenant->waiting.begin()->first, tenant);
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
