#include "worker/sampling/candidate_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tutti::worker {
namespace {

// A logarithm of a sum around L carries its absolute error, about L * 1e-16, into the sum as a
// relative one. Beyond this the sum is taken directly.
constexpr double kLogSumTrusted = 1e5;

int64_t PortionFor(int64_t count, int64_t size) {
  if (count <= kFirstPortion) return std::min(kFirstPortion, size);
  if (count <= kSecondPortion) return std::min(kSecondPortion, size);
  return size;
}

}  // namespace

CandidateWalk::CandidateWalk(CandidateSource* source, int64_t size, double temperature,
                             double log_sum, std::vector<WalkCandidate>* first)
    : source_(source),
      size_(size),
      inverse_temperature_(1 / temperature),
      log_sum_(log_sum),
      candidates_(*first) {
  CHECK(size > 0 && static_cast<int64_t>(first->size()) == PortionFor(1, size)) << first->size();
}

bool CandidateWalk::Need(int64_t count) {
  if (static_cast<int64_t>(cumulative_.size()) >= count) return true;
  if (!status_.ok()) return false;
  const int64_t portion = PortionFor(count, size_);
  if (static_cast<int64_t>(candidates_.size()) < portion) {
    status_ = source_->Top(portion, &candidates_);
    if (!status_.ok()) return false;
    CHECK(static_cast<int64_t>(candidates_.size()) == portion)
        << candidates_.size() << " candidates of " << portion;
  }
  for (int64_t i = static_cast<int64_t>(cumulative_.size()); i < portion; ++i) {
    cumulative_.push_back(
        (i > 0 ? cumulative_[i - 1] : 0) +
        std::exp((static_cast<double>(candidates_[i].logit) - candidates_[0].logit) *
                 inverse_temperature_));
  }
  return true;
}

const WalkCandidate& CandidateWalk::candidate(int64_t index) {
  static constexpr WalkCandidate kNone;
  return Need(index + 1) ? candidates_[index] : kNone;
}

double CandidateWalk::weight(int64_t index) {
  if (!Need(index + 1)) return 0;
  return std::exp((static_cast<double>(candidates_[index].logit) - candidates_[0].logit) *
                  inverse_temperature_);
}

double CandidateWalk::Cumulative(int64_t count) {
  if (count == 0) return 0;
  return Need(count) ? cumulative_[count - 1] : std::numeric_limits<double>::infinity();
}

double CandidateWalk::Total() {
  const double shift = candidates_[0].logit * inverse_temperature_;
  if (std::abs(shift) > kLogSumTrusted) return Cumulative(size());
  return std::exp(log_sum_ - shift);
}

}  // namespace tutti::worker
