// A draw from a whole row, in a bounded number of passes over it, whatever the parameters: nothing
// is sorted.
//
// Logits become whole numbers in the order of candidates, and the row is divided by their digits.
// The candidate at a place of the order (top_k) or at a sum of weights (top_p, the draw) is found
// digit by digit: by the counts and sums of the first digit, then of the second among those that
// share the first, then of the third. Candidates with the same logit are told apart by their ids,
// and weigh the same.
//
// Thread: the executor's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "worker/sampling/draw_rule.h"

namespace tutti::worker {

class RowDraw {
 public:
  // The id of the drawn candidate.
  //   logits  [rule.size], by id
  int32_t Draw(const DrawRule& rule, std::span<const float> logits);

 private:
  static constexpr int kDigits = 3;
  static constexpr int kDigitBits = 11;  // of the first
  static constexpr std::array<int, kDigits> kShifts = {21, 10, 0};

  // A part of the row, or what is listed before a place.
  struct Part {
    uint64_t count = 0;
    uint64_t units = 0;
  };
  // The parts of those whose keys begin with `prefix`, by their next digit.
  struct Table {
    int64_t prefix = -1;
    std::vector<Part> parts;
  };
  struct Place {
    uint32_t key = 0;
    uint64_t ties_before = 0;  // of the same key
    uint64_t units = 0;        // up to and with it
  };
  enum class By { kCount, kUnits };

  void Weigh(const DrawRule& rule);
  uint64_t Kept(const DrawRule& rule);
  // The first place at which the running count or sum exceeds `value`.  REQUIRES: there is one
  Place Find(By by, uint64_t value);
  const Table& TableOf(int digit, uint32_t prefix);

  std::span<const float> logits_;
  Part all_;
  // Kept for their memory:
  std::vector<uint64_t> units_;    // [size]
  std::vector<uint32_t> members_;  // ids of tables_[1], and a place for one that is none
  size_t member_count_ = 0;
  std::array<Table, kDigits> tables_;
};

}  // namespace tutti::worker
