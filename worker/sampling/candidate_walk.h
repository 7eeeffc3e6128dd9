// One row's distribution as a list of candidates from the likeliest down, looked at only as far as
// needed.
//
// Most rows are decided within the first few of 150,000 candidates, so these are fetched in growing
// portions. The numbers do not depend on the portions: the list has one order, and its sums are
// taken in that order, in f64.
//
// Thread: the executor's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace tutti::worker {

struct WalkCandidate {
  int32_t id = 0;
  float logit = 0;
  float raw = 0;  // before penalties and bias
};

// Portions: the first decides nearly every row of a trained model, the second the rest but for flat
// distributions.
inline constexpr int64_t kFirstPortion = 64;
inline constexpr int64_t kSecondPortion = 1024;

// Whether `a` is listed before `b`.
inline bool ListedBefore(const WalkCandidate& a, const WalkCandidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

class CandidateSource {
 public:
  virtual ~CandidateSource() = default;
  // The first `count` candidates into *out.
  virtual absl::Status Top(int64_t count, std::vector<WalkCandidate>* out) = 0;
};

class CandidateWalk {
 public:
  // `first` holds the first min(kFirstPortion, size) candidates and is worked in; `log_sum` is the
  // logarithm of the sum of exp(logit / temperature).  REQUIRES: logits without NaN and +Inf, at
  // least one finite; temperature > 0.
  CandidateWalk(CandidateSource* source, int64_t size, double temperature, double log_sum,
                std::vector<WalkCandidate>* first);

  int64_t size() const { return size_; }
  const WalkCandidate& candidate(int64_t index);
  // exp((logit - largest) / temperature): 1 for the first.
  double weight(int64_t index);
  // Sum of the weights of candidates [0, count).
  double Cumulative(int64_t count);
  // Sum of all weights. May differ from Cumulative(size()) in the last bits.
  double Total();

  // Not OK when the source failed. From then on weights are 0 and sums infinite, so that every loop
  // over candidates ends.
  const absl::Status& status() const { return status_; }

 private:
  bool Need(int64_t count);

  CandidateSource* const source_;
  const int64_t size_;
  const double inverse_temperature_;
  const double log_sum_;
  std::vector<WalkCandidate>& candidates_;
  std::vector<double> cumulative_;  // [i]: of candidates [0, i]
  absl::Status status_;
};

}  // namespace tutti::worker
