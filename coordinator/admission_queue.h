// The requests no pipeline has been chosen for yet, and whose turn is next.
//
// Order: lower class first. Within a class, tenants share: each is charged the tokens computed for
// it, and while one has been served kLevelTokens more than the least served tenant that waits, it
// stands aside (start-time fair queueing: P. Goyal, H. Vin, H. Cheng, "Start-time fair queuing",
// 1996). Among the others the earliest Sequence::due goes first, then the earliest arrival. A
// tenant that comes back is charged as much as the least served, so that being away earns no
// credit.
//
// So nobody starves within a class: a request without a deadline counts as due after kPatience, and
// no tenant falls behind another by more than kLevelTokens and one request. Higher classes go
// before lower ones without limit: that is what the operator asked for by using them.
//
// Every operation is O(log waiting).  Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

class AdmissionQueue {
 public:
  // REQUIRES: the sequence is not here. It must stay until Erase or PopFront.
  void Push(Sequence* sequence);
  // REQUIRES: the sequence is here
  void Erase(Sequence* sequence);

  // Whose turn it is; null when nobody waits.
  Sequence* Front();
  // Front leaves to be served, and its tenant is charged what it is expected to take.
  // REQUIRES: size() > 0
  void PopFront();
  // A sequence served has ended or gives its place back: its tenant is charged what it really took.
  void Settle(Sequence* sequence);

  size_t size() const { return size_; }
  // Tenants remembered, in all classes.
  size_t tenants() const;

 private:
  using TenantId = absl::uint128;  // the hash of its name, as a number that has an order

  // The tokens a tenant has been charged in one class, and what of it waits there.
  struct Tenant {
    TenantId id = 0;
    int64_t served = 0;
    std::map<std::pair<Instant, uint64_t>, Sequence*> waiting;  // by due, arrival
  };
  struct Class {
    absl::flat_hash_map<TenantId, std::unique_ptr<Tenant>> tenants;  // never walked in order
    int64_t clock = 0;  // what the least served tenant that waits has been charged; never goes back
    std::set<std::pair<int64_t, TenantId>> by_served;  // the tenants that wait
    // First in line of each tenant that waits and is level.
    std::map<std::pair<Instant, uint64_t>, Tenant*> level;
  };

  static Tenant* TenantOf(Class* in, TenantId id);
  static void Leave(Class* in, Tenant* tenant);
  static void Enter(Class* in, Tenant* tenant);
  static void AdvanceClock(Class* in);
  static void ForgetIdle(Class* in);
  static void Charge(Class* in, Tenant* tenant, int64_t tokens);

  std::map<int32_t, Class> classes_;  // by priority
  size_t size_ = 0;
};

}  // namespace tutti::coordinator
