// The requests that no pipeline has been chosen for yet, in the order in which they are bound.
//
// Order: lower class first. Within a class, owners share: each is charged the tokens computed for
// it, and while one has been served kLevelTokens more than the least served owner that waits, it
// stands aside (start-time fair queueing: P. Goyal, H. Vin, H. Cheng, "Start-time fair queuing",
// 1996). Among the others the earliest Sequence::due goes first, then the earliest arrival. An
// owner that comes back is charged as much as the least served, so that being away earns no
// credit.
//
// Before all of its class goes what has run on a pipeline that ended, by arrival. Its owner has
// been charged when it was first bound: what is computed again is charged to nobody.
//
// So no request starves within a class: one without a deadline counts as due after kPatience, and
// no owner falls behind another by more than kLevelTokens and one request. Higher classes go
// before lower ones without limit: the operator asked for that by using them.
//
// Where the first in line finds no room, another owner may: one that has fewer sequences on
// pipelines, whose share of places (place_shares.h) is not used up. Of those that are level with
// the first the one that has fewest comes next; so the first is overtaken for kLevelTokens at most.
//
// Every operation is O(log waiting).  Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "coordinator/requests/admission_shares.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

class AdmissionQueue {
 public:
  // REQUIRES: the sequence is not here. It must stay until Erase or PopFront.
  void Push(Sequence* sequence);
  // REQUIRES: the sequence is here
  void Erase(Sequence* sequence);

  // The sequence whose turn it is; null when none waits.
  Sequence* Front();
  // The first in line of the owner that has fewest sequences served, of those that are level; it
  // is Front where no other has fewer. Null when none waits.
  Sequence* FrontOfFewest();
  // The sequence leaves to be served, and its owner is charged the tokens it is expected to take.
  // REQUIRES: it is Front or FrontOfFewest
  void Pop(Sequence* sequence);
  void PopFront() { Pop(Front()); }
  // A sequence that waited elsewhere is served now, and counts as if it had been popped.
  void TakePlace(const Sequence& sequence);
  // A sequence that was popped gives its place back: it has ended, or its pipeline has.
  void GiveBack(const Sequence& sequence);
  // One that was popped has ended: the charge of Pop is replaced by the tokens it really took.
  void ChargeActual(Sequence* sequence);

  size_t size() const { return size_; }
  // Sequences that have not run yet.
  size_t newcomers() const { return size_ - resumed_; }
  // Another number after every change: while it is the same, Front is.
  uint64_t version() const { return version_; }
  // Shares of the sequences here.
  const AdmissionShares& shares() const { return shares_; }
  // Owners remembered, in all classes.
  size_t owners() const;
  // Tokens charged so far, of all owners.
  int64_t charged() const { return charged_; }

 private:
  using OwnerId = absl::uint128;  // the hash of its name, as a number that has an order

  // The tokens an owner has been charged in one class, and its sequences that wait there.
  struct Owner {
    OwnerId id = 0;
    int64_t served = 0;
    int32_t bound = 0;  // its sequences that were popped and have not given their place back
    std::map<std::pair<Instant, uint64_t>, Sequence*> waiting;  // by due, arrival
  };
  struct Class {
    absl::flat_hash_map<OwnerId, std::unique_ptr<Owner>> owners;  // never walked in order
    // The charge of the least served owner that waits; never goes back.
    int64_t clock = 0;
    std::set<std::pair<int64_t, OwnerId>> by_served;  // the owners that wait
    // First in line of each owner that waits and is level.
    std::map<std::pair<Instant, uint64_t>, Owner*> level;
    // The same owners by Owner::bound first.
    std::map<std::tuple<int32_t, Instant, uint64_t>, Owner*> fewest;
    std::map<uint64_t, Sequence*> resumed;  // by arrival

    bool empty() const { return by_served.empty() && resumed.empty(); }
  };

  Owner* OwnerOf(Class* in, const Request& request);
  static void EnterLevel(Class* in, Owner* owner);
  static void Leave(Class* in, Owner* owner);
  static void Enter(Class* in, Owner* owner);
  static void AdvanceClock(Class* in);
  static void ForgetIdle(Class* in);
  void Charge(Class* in, Owner* owner, int64_t tokens);
  void CountBound(const Request& request, int32_t change);

  std::map<int32_t, Class> classes_;  // by priority
  // Owner::bound by class, of owners that do not wait too.
  absl::flat_hash_map<std::pair<int32_t, OwnerId>, int32_t> bound_;
  size_t size_ = 0;
  size_t resumed_ = 0;
  uint64_t version_ = 0;
  int64_t charged_ = 0;
  AdmissionShares shares_;
};

}  // namespace tutti::coordinator
