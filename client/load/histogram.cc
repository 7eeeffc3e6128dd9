#include "client/load/histogram.h"

#include <algorithm>
#include <cmath>

namespace tutti::client {
namespace {

// Everything up to a microsecond shares bucket 0; each further bucket ends half a percent higher.
constexpr double kFirstNs = 1000;
constexpr double kStep = 1.005;
constexpr Duration kLargest = std::chrono::hours(4);

size_t BucketOf(Duration value) {
  const double ns = static_cast<double>(value.count());
  return ns <= kFirstNs ? 0
                        : static_cast<size_t>(std::ceil(std::log(ns / kFirstNs) / std::log(kStep)));
}

Duration EndOf(size_t bucket) {
  const double ns = kFirstNs * std::pow(kStep, static_cast<double>(bucket));
  return Duration(std::llround(ns));
}

}  // namespace

void Histogram::Add(Duration value, int64_t count) {
  value = std::clamp(value, Duration::zero(), kLargest);
  const size_t bucket = BucketOf(value);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  buckets_[bucket] += count;
  count_ += count;
  sum_s_ += Seconds(value) * static_cast<double>(count);
  max_ = std::max(max_, value);
}

Duration Histogram::mean() const {
  if (count_ == 0) return Duration::zero();
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(sum_s_ / static_cast<double>(count_)));
}

Duration Histogram::Quantile(double share) const {
  const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= wanted && seen > 0) return std::min(EndOf(bucket), max_);
  }
  return max_;
}

}  // namespace tutti::client
