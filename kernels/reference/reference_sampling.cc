#include "kernels/reference/reference_sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

int32_t ArgMaxOfRow(const float* x, int64_t count) {
  float best = -kInfinity;
  int32_t index = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(x[i]) || x[i] == kInfinity) return -1;
    if (x[i] > best) {
      best = x[i];
      index = static_cast<int32_t>(i);
    }
  }
  return index;
}

// NaN when the row holds one, else +Inf when it holds one; -Inf for an empty row or one of -Inf
// only.
double LogSumExpOfRow(const float* x, int64_t count, double inverse_temperature) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(x[i])) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max<double>(largest, x[i]);
  }
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp((x[i] - largest) * inverse_temperature);
  return largest * inverse_temperature + std::log(sum);
}

}  // namespace

void ReferenceAdjustLogits(TensorView logits, std::span<const LogitAdjustment> adjustments) {
  CheckAdjustLogits(logits, adjustments);
  for (const LogitAdjustment& a : adjustments) {
    float& logit = logits.f32(a.row)[a.id];
    logit = (logit > 0 ? logit / a.repetition : logit * a.repetition) + a.bias;
  }
}

void ReferenceArgMax(TensorView logits, std::span<int32_t> out) {
  CHECK(static_cast<int64_t>(out.size()) == logits.rows);
  for (int64_t r = 0; r < logits.rows; ++r) out[r] = ArgMaxOfRow(logits.f32(r), logits.cols);
}

void ReferenceLogSumExp(TensorView logits, double inverse_temperature, std::span<double> out) {
  CHECK(static_cast<int64_t>(out.size()) == logits.rows);
  for (int64_t r = 0; r < logits.rows; ++r) {
    out[r] = LogSumExpOfRow(logits.f32(r), logits.cols, inverse_temperature);
  }
}

void ReferenceTopCandidates(TensorView logits, int64_t row, int64_t count,
                            std::vector<Candidate>* out) {
  CHECK(row >= 0 && row < logits.rows && count >= 0);
  out->clear();
  for (int64_t i = 0; i < logits.cols; ++i) {
    const float logit = logits.f32(row)[i];
    if (!std::isnan(logit)) out->push_back({static_cast<int32_t>(i), logit});
  }
  std::stable_sort(out->begin(), out->end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  out->resize(std::min<size_t>(out->size(), static_cast<size_t>(count)));
}

void ReferenceChooseExperts(const float* logits, int64_t count, std::span<int32_t> chosen) {
  std::vector<int32_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  std::stable_sort(all.begin(), all.end(), [&](int32_t a, int32_t b) {
    return std::isnan(logits[b]) ? !std::isnan(logits[a]) : logits[a] > logits[b];
  });
  std::copy_n(all.begin(), chosen.size(), chosen.begin());
  std::sort(chosen.begin(), chosen.end());
}

}  // namespace tutti::kernels
