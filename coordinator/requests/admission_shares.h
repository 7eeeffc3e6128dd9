// The choice of who gives way when the admission queue is full: the owners that wait there, and
// how many places each has taken.
//
// The places are not dealt out in advance: one owner alone may have all of them. When another
// comes and none is left, the owner that has most gives the places of its newest requests, as long
// as it has more than the other will have ("longest queue drop"). So every owner can have its
// equal part at any time, and a burst of one shuts the queue for none.
//
// A request gives way as a whole, all its outputs, and only while none has been bound: what has
// begun is never refused. A request never takes the place of one that goes before it by its class.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "base/ids.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

class AdmissionShares {
 public:
  // REQUIRES: the sequence is not here; its request does not change until Remove
  void Add(Sequence* sequence);
  // REQUIRES: it is here
  void Remove(Sequence* sequence);

  // The sequences that give way so that `newcomer`, which wants `places`, gets the `lacking` ones
  // that are not free; empty: the newcomer is the one that has to go. O(owners that wait) for each
  // request that gives way.
  std::vector<Sequence*> FindGivingWay(const Request& newcomer, int64_t places,
                                       int64_t lacking) const;

 private:
  using OwnerId = absl::uint128;  // the hash of its name, as a number that has an order
  // The outputs of each request, by its class and the id of its first.
  using Requests = std::map<std::pair<int32_t, RequestId>, std::vector<Sequence*>>;
  struct Owner {
    int64_t places = 0;
    Requests requests;
  };
  // An owner while it is decided which of its requests give way.
  struct Candidate {
    int64_t places = 0;
    Requests::const_reverse_iterator newest;
    Requests::const_reverse_iterator end;
  };

  std::map<OwnerId, Owner> owners_;
};

}  // namespace tutti::coordinator
