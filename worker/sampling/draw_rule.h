// The rule by which one candidate of a row is drawn, in whole numbers.
//
// A candidate's weight, exp((logit - largest) / temperature), is counted in units so small that the
// first candidate has 2^unit_bits of them. Sums of whole numbers do not depend on their order: a
// list of the first candidates, a table of the whole row and any number of ranks give the same
// sums, and so the same token.
//
// The drawn candidate is the first, in the order of ListedBefore, at which the running sum exceeds
// the target: the seed's share of the sum of those kept. Candidates of less than a unit are never
// drawn.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <optional>

#include "base/portable_math.h"
#include "proto/peer_messages.h"

namespace tutti::worker {

// A row's units stay below 2^62 for any vocabulary, and one weight below the 52 bits in which f64
// rounds to whole numbers by a single sum.
inline constexpr int kRowUnitBits = 62;
inline constexpr int kUnitBitsMax = 51;

// Shares (top_p, the random number) are multiples of 2^-53.
inline constexpr int kShareBits = 53;
inline constexpr uint64_t kWholeShare = uint64_t{1} << kShareBits;

// The share of `units`, rounded down or up.  REQUIRES: share <= kWholeShare
inline uint64_t ShareOf(uint64_t units, uint64_t share) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(units) * share >> kShareBits);
}
inline uint64_t ShareOfUp(uint64_t units, uint64_t share) {
  return static_cast<uint64_t>(
      (static_cast<unsigned __int128>(units) * share + (kWholeShare - 1)) >> kShareBits);
}

struct DrawRule {
  // The rule for a row of `size` candidates whose first has the logit `largest`, for the token at
  // `position` of a sequence. `log_sum` is the logarithm of the sum of exp(logit / temperature).
  // REQUIRES: temperature > 0; logits without NaN and +Inf; `largest` finite
  DrawRule(const v1::SequenceSampling& sampling, int64_t size, float largest, double log_sum,
           uint64_t position);

  // Exponent of a weight: 0 for the first, never above.
  double Argument(float logit) const {
    return (static_cast<double>(logit) - largest) * inverse_temperature;
  }
  // Never more for a smaller logit but for the last bit of the exponential, and exactly so between
  // none and some.
  uint64_t Units(float logit) const {
    const double argument = Argument(logit);
    // So written for the compiler's vectors: it has one for each of these operations.
    const bool none = argument < least_weighed;
    const ScaledExp parts = ExpInParts(none ? 0 : argument);
    const double units = parts.value * PowerOfTwo(parts.exponent + unit_bits);
    constexpr double kRound = 0x1p52;
    const uint64_t whole =
        std::bit_cast<uint64_t>(units + kRound) - std::bit_cast<uint64_t>(kRound);
    return none ? 0 : whole;
  }
  // Whether min_p and top_k keep fewer than all.
  bool is_filtered() const { return top_k < size || least_argument > -kInfinity; }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  int64_t size;
  float largest;
  double inverse_temperature;
  int unit_bits;
  double least_weighed;   // an argument below it has no unit
  int64_t top_k;          // `size`: all
  double least_argument;  // that min_p keeps; -Inf: all
  uint64_t top_p;         // in shares
  uint64_t random;        // in shares, below kWholeShare
  // Units of all candidates, as log_sum tells; none when it is too large to be exact.
  std::optional<uint64_t> total;
};

}  // namespace tutti::worker
