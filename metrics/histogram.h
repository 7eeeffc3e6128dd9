// Numbers that are counted on one thread, or several, and read on another: relaxed atomics, so that
// counting costs an increment and reading waits for nobody.
//
// Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "metrics/exposition.h"
#include "metrics/limits.h"

namespace tutti::metrics {

class Counter {
 public:
  void Add(uint64_t more = 1) { value_.fetch_add(more, std::memory_order_relaxed); }
  double value() const { return static_cast<double>(value_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Histogram {
 public:
  // REQUIRES: the bounds rise, and are kBoundsMax at most
  explicit Histogram(std::vector<double> bounds);

  // `times` values that are equal.
  void Observe(double value, uint64_t times = 1);

  // The samples of one histogram, of the family that has begun.
  void Write(const Labels& labels, Exposition* to) const;
  uint64_t count() const;

 private:
  const std::vector<double> bounds_;
  // Counts of values up to each bound and above the one before; the last: above all.
  std::array<std::atomic<uint64_t>, kBoundsMax + 1> counts_{};
  std::atomic<double> sum_{0};
};

}  // namespace tutti::metrics
