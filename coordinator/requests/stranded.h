// The sequences that no pipeline which serves could hold, and that wait for one that may come. They
// are in no queue, where they would hold up others.
//
// Thread: the engine's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/clock.h"
#include "coordinator/sequence.h"

namespace tutti::coordinator {

class Stranded {
 public:
  // They wait for so long.
  explicit Stranded(Duration patience) : patience_(patience) {}

  // `since`: when it stranded.
  void Add(Sequence* sequence, Instant since) {
    waiting_.emplace(sequence->arrival, sequence);
    sequence->stranded_since = since;
    WaitUntil(EndOf(*sequence));
  }
  // Whether it was here. It goes on elsewhere, or ends.
  bool Erase(const Sequence& sequence) { return waiting_.erase(sequence.arrival) > 0; }
  bool Holds(const Sequence& sequence) const { return waiting_.contains(sequence.arrival); }
  size_t size() const { return waiting_.size(); }

  // The end of the patience with one.  REQUIRES: it has stranded
  Instant EndOf(const Sequence& sequence) const { return *sequence.stranded_since + patience_; }
  // Nobody's patience ends before, of those added, and those for whom WaitUntil was called, since
  // the last Reset.
  Instant until() const { return until_; }
  void Reset() { until_ = kInstantNever; }
  void WaitUntil(Instant time) { until_ = std::min(until_, time); }
  Duration patience() const { return patience_; }

 private:
  const Duration patience_;
  std::map<uint64_t, Sequence*> waiting_;  // by arrival
  Instant until_ = kInstantNever;
};

}  // namespace tutti::coordinator
