// Edges between numbered things, by where they lead to.
//
// Values; pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::grammar {

class Reversed {
 public:
  // Where edges come from that lead to `to`.
  std::span<const uint32_t> Of(uint32_t to) const {
    return std::span(from_).subspan(begin_[to], begin_[to + 1] - begin_[to]);
  }

 private:
  template <typename Visit>
  friend Reversed Reverse(uint32_t count, const Visit& visit);

  std::vector<uint32_t> begin_;
  std::vector<uint32_t> from_;
};

// `visit(edge)` calls edge(from, to) for each, twice the same. REQUIRES: from, to < count
template <typename Visit>
Reversed Reverse(uint32_t count, const Visit& visit) {
  Reversed out;
  out.begin_.assign(count + 1, 0);
  visit([&](uint32_t, uint32_t to) { ++out.begin_[to]; });
  uint32_t sum = 0;
  for (uint32_t& begin : out.begin_) {  // the ends, from which the second pass counts down
    sum += begin;
    begin = sum;
  }
  out.from_.resize(sum);
  visit([&](uint32_t from, uint32_t to) { out.from_[--out.begin_[to]] = from; });
  return out;
}

}  // namespace tutti::grammar
