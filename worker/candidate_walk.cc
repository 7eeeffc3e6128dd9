#include "worker/candidate_walk.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tutti {
namespace {

// Portions: the first decides nearly every row of a trained model, the second the rest but for flat
// distributions.
constexpr int64_t kFirstPortion = 64;
constexpr int64_t kSecondPortion = 1024;

// A logarithm of a sum around L carries its absolute error, about L * 1e-16, into the sum as a
// relative one. Beyond this the sum is taken directly.
constexpr double kLogSumTrusted = 1e5;

int64_t PortionFor(int64_t count, int64_t size) {
  if (count <= kFirstPortion) return std::min(kFirstPortion, size);
  if (count <= kSecondPortion) return std::min(kSecondPortion, size);
  return size;
}

}  // namespace

CandidateWalk::CandidateWalk(kernels::Backend* backend, kernels::TensorView logits,
                             double temperature, std::vector<kernels::Candidate>* storage)
    : backend_(backend),
      logits_(logits),
      inverse_temperature_(1 / temperature),
      candidates_(*storage) {
  CHECK(logits.rows == 1 && logits.cols > 0);
  candidates_.clear();
}

void CandidateWalk::Need(int64_t count) {
  if (static_cast<int64_t>(candidates_.size()) >= count) return;
  const int64_t portion = PortionFor(count, size());
  backend_->TopCandidates(logits_, 0, portion, &candidates_);
  CHECK(static_cast<int64_t>(candidates_.size()) == portion)
      << candidates_.size() << " candidates of " << portion;
  const double largest = candidates_[0].logit;
  for (int64_t i = static_cast<int64_t>(cumulative_.size()); i < portion; ++i) {
    const double weight = std::exp((candidates_[i].logit - largest) * inverse_temperature_);
    cumulative_.push_back(weight + (i > 0 ? cumulative_[i - 1] : 0));
  }
}

int32_t CandidateWalk::id(int64_t index) {
  Need(index + 1);
  return candidates_[index].id;
}

double CandidateWalk::weight(int64_t index) {
  Need(index + 1);
  return std::exp((static_cast<double>(candidates_[index].logit) - candidates_[0].logit) *
                  inverse_temperature_);
}

double CandidateWalk::Cumulative(int64_t count) {
  if (count == 0) return 0;
  Need(count);
  return cumulative_[count - 1];
}

double CandidateWalk::Total() {
  Need(1);
  const double shift = candidates_[0].logit * inverse_temperature_;
  if (std::abs(shift) > kLogSumTrusted) return Cumulative(size());
  double log_sum = 0;
  backend_->LogSumExp(logits_, inverse_temperature_, {&log_sum, 1});
  return std::exp(log_sum - shift);
}

}  // namespace tutti
