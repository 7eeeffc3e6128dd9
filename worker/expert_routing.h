// The experts that the rows of one layer go to: the choice row by row, and the same grouped by
// expert, so that an expert's rows are multiplied together.
//
// Grouping changes no bit: products are row-independent, and each row's sum goes over its own
// experts in ascending order.  Thread: the executor's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::worker {

class ExpertRouting {
 public:
  // Room for `rows` rows with `count` experts each; the choice is written through experts() and
  // shares(), row by row.
  void Resize(int64_t rows, int64_t count) {
    count_ = count;
    experts_.resize(static_cast<size_t>(rows * count));
    shares_.resize(experts_.size());
  }
  std::span<int32_t> experts() { return experts_; }
  std::span<float> shares() { return shares_; }

  // Sorts the choices by expert, then by row.  REQUIRES: experts() lie in [0, num_experts)
  void Group(int64_t num_experts) {
    begin_.assign(static_cast<size_t>(num_experts) + 1, 0);
    for (const int32_t expert : experts_) ++begin_[expert + 1];
    for (int64_t e = 0; e < num_experts; ++e) begin_[e + 1] += begin_[e];
    next_.assign(begin_.begin(), begin_.end() - 1);
    tokens_.resize(experts_.size());
    places_.resize(experts_.size());
    for (size_t i = 0; i < experts_.size(); ++i) {
      const int32_t place = next_[experts_[i]]++;
      places_[i] = place;
      tokens_[place] = static_cast<int32_t>(static_cast<int64_t>(i) / count_);
    }
  }
  int64_t size() const { return static_cast<int64_t>(experts_.size()); }
  int64_t FirstOf(int64_t expert) const { return begin_[expert]; }
  // Rows that go to an expert, ascending; they stand at places FirstOf(expert) and following.
  std::span<const int32_t> TokensOf(int64_t expert) const {
    return std::span<const int32_t>(tokens_).subspan(begin_[expert],
                                                     begin_[expert + 1] - begin_[expert]);
  }
  // The place in the grouped order of each choice of experts().
  std::span<const int32_t> places() const { return places_; }

 private:
  int64_t count_ = 1;
  std::vector<int32_t> experts_;  // [rows * count]
  std::vector<float> shares_;     // [rows * count]
  std::vector<int32_t> begin_;    // [num_experts + 1]
  std::vector<int32_t> next_;     // [num_experts]
  std::vector<int32_t> tokens_;   // [rows * count], in the grouped order
  std::vector<int32_t> places_;   // [rows * count]
};

}  // namespace tutti::worker
