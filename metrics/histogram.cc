#include "metrics/histogram.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tutti::metrics {

Histogram::Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)) {
  CHECK(bounds_.size() <= kBoundsMax && std::is_sorted(bounds_.begin(), bounds_.end()));
}

void Histogram::Observe(double value, uint64_t times) {
  const auto found = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  const auto bucket = static_cast<size_t>(found - bounds_.begin());
  counts_[bucket].fetch_add(times, std::memory_order_relaxed);
  sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (const auto& bucket : counts_) count += bucket.load(std::memory_order_relaxed);
  return count;
}

// The count is the sum of the buckets as they were read, so that the two agree.
void Histogram::Write(const Labels& labels, Exposition* to) const {
  uint64_t count = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    count += counts_[i].load(std::memory_order_relaxed);
    to->Sample("_bucket", labels.With({{"le", BoundText(bounds_[i])}}), static_cast<double>(count));
  }
  count += counts_[bounds_.size()].load(std::memory_order_relaxed);
  to->Sample("_bucket", labels.With({{"le", "+Inf"}}), static_cast<double>(count));
  to->Sample("_sum", labels, sum_.load(std::memory_order_relaxed));
  to->Sample("_count", labels, static_cast<double>(count));
}

}  // namespace tutti::metrics
