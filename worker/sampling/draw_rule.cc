#include "worker/sampling/draw_rule.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/random.h"

namespace tutti::worker {
namespace {

// A logarithm of a sum around L carries its absolute error, about L * 1e-16, into the sum as a
// relative one. Beyond this the sum is taken directly.
constexpr double kLogSumTrusted = 1e5;

int UnitBits(int64_t size) {
  return std::min<int>(
      kUnitBitsMax, kRowUnitBits - static_cast<int>(std::bit_width(static_cast<uint64_t>(size))));
}

// 0 and 1 are off; others at least one share.
uint64_t TopPShare(float top_p) {
  if (top_p == 0 || top_p >= 1) return kWholeShare;
  return std::max<uint64_t>(1, static_cast<uint64_t>(top_p * 0x1p53));
}

}  // namespace

DrawRule::DrawRule(const v1::SequenceSampling& sampling, int64_t size, float largest,
                   double log_sum, uint64_t position)
    : size(size),
      largest(largest),
      inverse_temperature(1 / double{sampling.temperature()}),
      unit_bits(UnitBits(size)),
      least_weighed(-unit_bits * 0.693147180559945309417),
      top_k(sampling.top_k() > 0 ? std::min<int64_t>(sampling.top_k(), size) : size),
      least_argument(sampling.min_p() > 0 ? Log(sampling.min_p()) : -kInfinity),
      top_p(TopPShare(sampling.top_p())),
      random(RandomBits(sampling.seed(), position) >> (64 - kShareBits)) {
  CHECK(size > 0 && std::isfinite(largest)) << size << " candidates, the first " << largest;
  const double shift = largest * inverse_temperature;
  if (std::abs(shift) > kLogSumTrusted) return;
  const double sum = std::clamp(Exp(log_sum - shift), 1.0, static_cast<double>(size));
  total = static_cast<uint64_t>(sum * PowerOfTwo(unit_bits));
}

}  // namespace tutti::worker
