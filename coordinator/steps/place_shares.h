// How the places of one pipeline are shared between those that want one: which of the sequences
// that wait there goes first, and which that run give way.
//
// The places are not dealt out in advance: who is alone may have all of them. Whoever wants one
// while none is left is compared with those that run, first owner with owner, then request with
// request of one owner (a request may have many outputs):
//
//   order     of those that wait, the owner that runs fewest goes first, of its requests the one
//             that runs fewest, of its outputs the one bound first; classes before all of that
//   way       a newcomer takes the place of a sequence whose owner runs at least kPlacesAhead more
//             than its own; or, within its owner, of an output whose request does. The one that
//             runs most gives way, with its latest sequence
//
// So an owner that runs nothing waits for a place only while no other runs two (and for blocks,
// scheduler.h), and so does a request within its owner. Each place that changes hands makes the
// numbers more even (the sum of their squares falls), so it ends after finitely many, and where all
// run one each nothing is ever taken.
//
// Counted by class: a newcomer takes places of its own class and of those that go after it.
//
// Every change is O(log sequences).  Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "base/ids.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

class PlaceShares {
 public:
  explicit PlaceShares(int32_t block_size) : block_size_(block_size) {}

  // REQUIRES: the sequence neither waits nor runs here. Its request, place and tokens do not change
  // until Unwait; its request and arrival not until Stop.
  void Wait(Sequence* sequence) { Change(sequence, Move::kWait); }
  void Run(Sequence* sequence) { Change(sequence, Move::kRun); }
  // REQUIRES: it waits, or runs
  void Unwait(Sequence* sequence) { Change(sequence, Move::kUnwait); }
  void Stop(Sequence* sequence) { Change(sequence, Move::kStop); }

  // The demand of waiting sequences, each with all its tokens.
  struct Demand {
    int64_t sequences = 0;
    int64_t blocks = 0;
    bool operator==(const Demand&) const = default;
  };
  // The demand of those that go before an output of the request that came now; more than really do,
  // where an owner or a request that goes before it has many. However many wait, it looks only at
  // sums: one for each number of places that some member runs, of which a pipeline with n places
  // has less than the root of 2n.
  Demand DemandBefore(const Request& request) const;

  // Sequences that wait, in order, until `visit` says to stop.
  enum class Next { kSequence, kOwner, kStop };
  void VisitWaiting(absl::FunctionRef<Next(Sequence*)> visit) const;
  // Sequences that give way to an output of the request, in order, until `visit` returns false.
  void VisitGivingWay(const Request& newcomer, absl::FunctionRef<bool(Sequence*)> visit) const;
  bool AnyGivesWay(const Request& newcomer) const;
  // The sequence that goes when blocks run out: of the lowest class, the latest of the request that
  // runs most of the owner that runs most. The earliest of a class is the last of it to go.
  // REQUIRES: some sequence runs
  Sequence* FirstToGo() const;

  // Requests of which an output runs.
  int32_t requests_running() const { return requests_running_; }

 private:
  using OwnerId = absl::uint128;
  // Running sequences, then the place of the first that waits or the arrival of the last that runs:
  // no two are equal.
  using Key = std::pair<int32_t, uint64_t>;
  enum class Move { kWait, kUnwait, kRun, kStop };
  // By the number of sequences that a member runs: what all such members demand together. No entry
  // without demand.
  using DemandByRunning = std::map<int32_t, Demand>;

  struct Outputs {  // of one request
    int32_t running = 0;
    Demand demand;
    std::map<uint64_t, Sequence*> waiting;  // by place
    std::map<uint64_t, Sequence*> runs;     // by arrival
  };
  struct Owner {
    int32_t running = 0;
    Demand demand;
    absl::node_hash_map<RequestId, Outputs> requests;  // never walked in order
    std::map<Key, Outputs*> waiting;
    DemandByRunning demand_by_running;  // of those in `waiting`
    std::map<Key, Outputs*> runs;
  };
  struct Class {
    Demand demand;
    absl::node_hash_map<OwnerId, Owner> owners;  // never walked in order
    std::map<Key, Owner*> waiting;
    DemandByRunning demand_by_running;  // of those in `waiting`
    std::map<Key, Owner*> runs;
  };
  // Members that have been asked to give way, while it is decided how many do.
  template <typename Member>
  using Given = std::map<const Member*, int32_t>;

  template <typename Member, typename Holder>
  static void TakeOutOf(Member* member, Holder* owner);
  template <typename Member, typename Holder>
  static void PutBack(Member* member, Holder* owner);
  static Demand UpTo(int32_t running, const DemandByRunning& demand);
  template <typename Member>
  static const Member* MostOf(const std::map<Key, Member*>& runs, const Given<Member>& given,
                              const Member* but);
  static Next VisitOwner(const Owner& owner, absl::FunctionRef<Next(Sequence*)> visit);
  void Change(Sequence* sequence, Move move);
  static void Count(Move move, const Demand& demand, int32_t* running, Demand* sum);

  const int32_t block_size_;
  std::map<int32_t, Class> classes_;  // by priority
  int32_t requests_running_ = 0;
};

}  // namespace tutti::coordinator
