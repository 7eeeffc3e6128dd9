// The running sequences that are one token behind, and whose turn it is to have the next row.
//
// Turns go round the owners (Request::owner), those of an owner round its requests, and those of a
// request round its outputs. So of the rows of a step every owner has one before any has its
// second, and of an owner's every request before any has its second: who has few sequences has a
// row for each of them, and what is left goes to those who have more, however many more they have.
// A sequence that had no row is not overtaken by others of its request.
//
// A turn takes as long however many are in line, and no memory: what is known of an owner and of a
// request is kept as long as a sequence of theirs runs.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/numeric/int128.h"
#include "base/ids.h"
#include "coordinator/sequence.h"
#include "coordinator/steps/member_line.h"

namespace tutti::coordinator {

// What is known of an owner, and of a request of its.
struct OwnerTurns {
  int32_t running = 0;            // sequences
  MemberLine<RequestTurns> line;  // requests with sequences in line
  MemberLinks<OwnerTurns> links;
};
struct RequestTurns {
  OwnerTurns* of = nullptr;
  int32_t running = 0;
  MemberLine<Sequence> line;
  MemberLinks<RequestTurns> links;
};

inline MemberLinks<OwnerTurns>& LinksOf(OwnerTurns* owner) { return owner->links; }
inline MemberLinks<RequestTurns>& LinksOf(RequestTurns* request) { return request->links; }
inline MemberLinks<Sequence>& LinksOf(Sequence* sequence) { return sequence->stay.turn.links; }

class RowTurns {
 public:
  // The sequence begins to run.  REQUIRES: it did not; its request stays as it is until Stop
  void Run(Sequence* sequence);
  // REQUIRES: it runs, and is not in line
  void Stop(Sequence* sequence);

  // It is one token behind, and comes after all others of its request.  REQUIRES: it runs, and is
  // not in line
  void Add(Sequence* sequence);
  // Whether it was in line.
  bool Erase(Sequence* sequence);
  // The one whose turn it is leaves.  REQUIRES: !empty()
  Sequence* Take();
  bool empty() const { return size_ == 0; }
  int32_t size() const { return size_; }

  // Owners of whom a sequence runs.
  int32_t owners() const { return static_cast<int32_t>(owners_.size()); }
  bool has(absl::uint128 owner) const { return owners_.contains(owner); }

  // What runs of one class.
  struct OfClass {
    int32_t running = 0;                                 // sequences
    int32_t requests = 0;                                // of which one runs
    absl::flat_hash_map<absl::uint128, int32_t> owners;  // how many run of each; never walked
    std::map<int32_t, int32_t> owners_by_running;        // how many owners have so many
    int32_t fewest_of_owner() const { return owners_by_running.begin()->first; }
  };
  // The class that goes before all others that run, and its priority.  REQUIRES: owners() > 0
  const std::pair<const int32_t, OfClass>& first_class() const { return *classes_.begin(); }
  // Of any owner, of that class; 0: there is none.
  int32_t fewest_of_owner() const {
    return classes_.empty() ? 0 : first_class().second.fewest_of_owner();
  }

 private:
  void CountRunning(const Sequence& sequence, int32_t more);

  int32_t size_ = 0;
  MemberLine<OwnerTurns> line_;                            // those with sequences in line
  absl::node_hash_map<absl::uint128, OwnerTurns> owners_;  // never walked
  absl::node_hash_map<RequestId, RequestTurns> requests_;  // never walked
  std::map<int32_t, OfClass> classes_;                     // by priority; none is empty
};

}  // namespace tutti::coordinator
