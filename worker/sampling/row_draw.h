// A draw from a whole row, in a bounded number of passes over it, whatever the parameters: nothing
// is sorted.
//
// The candidate at a place of the order (top_k) or at a sum of weights (top_p, the draw) is found
// by narrowing. The row is divided into equal ranges of its logits, of which each has a count and a
// sum; the range in which the place lies is divided again, now by the logits' own bits, until all
// that are left have the same logit. Four more divisions suffice for 32 bits, and mostly the first
// leaves a few hundred. Candidates with the same logit are told apart by their ids, and weigh the
// same.
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
  static constexpr int kPartBits = 10;
  static constexpr size_t kParts = size_t{1} << kPartBits;

  // A part of the row, or what is listed before a place.
  struct Part {
    uint64_t count = 0;
    uint64_t units = 0;

    void Add(const Part& other) {
      count += other.count;
      units += other.units;
    }
  };
  using Table = std::array<Part, kParts>;
  struct Place {
    int32_t id = 0;
    uint64_t units = 0;  // up to and with it
  };
  enum class By { kCount, kUnits };

  void Weigh(const DrawRule& rule);
  uint64_t Kept(const DrawRule& rule);
  // The first place at which the running count or sum exceeds `value`.  REQUIRES: there is one
  Place Find(By by, uint64_t value);
  // The part in which that place lies; `before` grows by those ahead of it.
  static size_t FindPart(const Table& table, By by, uint64_t value, Part* before);
  void CollectPart(size_t part);
  // Divides the members and keeps those of the part in which the place lies.
  void Narrow(By by, uint64_t value, Part* before);

  std::span<const float> logits_;
  Part all_;
  double ranges_per_argument_ = 0;
  Table ranges_;
  // Kept for their memory:
  std::vector<uint64_t> units_;     // [size]
  std::vector<uint16_t> range_of_;  // [size]
  // Ids, ascending, and a place for one that is none; the least and greatest of their keys.
  std::vector<uint32_t> members_;
  size_t member_count_ = 0;
  uint32_t least_key_ = 0, greatest_key_ = 0;
  Table parts_;
};

}  // namespace tutti::worker
