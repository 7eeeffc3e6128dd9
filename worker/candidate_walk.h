// One row's distribution as a list of candidates from the likeliest down, looked at only as far as
// needed.
//
// Most rows are decided within the first few of 150,000 candidates, so these are fetched in growing
// portions. The numbers do not depend on the portions: the list has one order, and its sums are
// taken in that order, in f64.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace tutti {

class CandidateWalk {
 public:
  // REQUIRES: `logits` is one row holding no NaN and no +Inf and at least one finite value;
  // temperature > 0. `storage` is memory to work in.
  CandidateWalk(kernels::Backend* backend, kernels::TensorView logits, double temperature,
                std::vector<kernels::Candidate>* storage);

  int64_t size() const { return logits_.cols; }
  int32_t id(int64_t index);
  // exp((logit - largest) / temperature): 1 for the first.
  double weight(int64_t index);
  // Sum of the weights of candidates [0, count).
  double Cumulative(int64_t count);
  // Sum of all weights. May differ from Cumulative(size()) in the last bits.
  double Total();

 private:
  void Need(int64_t count);

  kernels::Backend* const backend_;
  const kernels::TensorView logits_;
  const double inverse_temperature_;
  std::vector<kernels::Candidate>& candidates_;
  std::vector<double> cumulative_;  // [i]: of candidates [0, i]
};

}  // namespace tutti
