// Durations by the million in a fixed few kilobytes: buckets that each span half a percent.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace tutti::client {

// Thread: one.
class Histogram {
 public:
  // Below zero counts as zero, above four hours as four hours.
  void Add(Duration value, int64_t count = 1);
  int64_t count() const { return count_; }
  Duration mean() const;
  Duration max() const { return max_; }
  // The smallest value that at least `share` of all are not above, within half a percent and never
  // above max(). Zero when there is none.  REQUIRES: 0 < share <= 1
  Duration Quantile(double share) const;

 private:
  std::vector<int64_t> buckets_;  // grows to the largest bucket in use
  int64_t count_ = 0;
  double sum_s_ = 0;
  Duration max_{};
};

}  // namespace tutti::client
