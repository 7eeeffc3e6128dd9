#include "kernels/cpu/cpu_sampling.h"

#include <algorithm>
#include <cmath>

#include "base/portable_math.h"

namespace tutti::kernels::cpu {
namespace {

// Whether `a` is listed before `b`.
bool Before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Candidates that are kept for each one wanted: after so many have come, half of them are dropped.
constexpr int64_t kKeptPerWanted = 2;
constexpr int64_t kKeptMin = 256;

}  // namespace

int32_t ArgMaxOfRow(const KernelTable& kernels, const float* x, int64_t cols) {
  const float largest = kernels.largest(x, cols);
  if (std::isnan(largest) || std::isinf(largest)) return -1;
  return static_cast<int32_t>(kernels.find_equal(x, 0, cols, largest));
}

double LogSumExpOfRow(const KernelTable& kernels, const float* x, int64_t cols,
                      double inverse_temperature) {
  const float largest = kernels.largest(x, cols);
  if (std::isnan(largest) || std::isinf(largest)) return largest;
  // The largest element contributes e^0, so the sum is at least 1. A factor beyond f32 leaves only
  // the ties.
  const float factor = static_cast<float>(std::min(inverse_temperature, 1e30));
  return largest * inverse_temperature + Log(kernels.sum_exp(x, cols, largest, factor));
}

// Every candidate of the row costs a bounded time, in whatever order they come: those above the
// last of the best so far are collected, and when there is no room the best of them are selected.
void TopOfRow(const KernelTable& kernels, const float* x, int64_t cols, int64_t count,
              std::vector<Candidate>* out) {
  out->clear();
  count = std::min(count, cols);
  if (count <= 0) return;
  const auto room = static_cast<size_t>(std::min(cols, std::max(kKeptMin, kKeptPerWanted * count)));
  out->reserve(room);
  const auto keep_best = [out](size_t wanted) {
    std::nth_element(out->begin(), out->begin() + static_cast<int64_t>(wanted) - 1, out->end(),
                     Before);
    out->resize(wanted);
  };
  int64_t i = 0;
  for (; i < cols && out->size() < room; ++i) {
    if (!std::isnan(x[i])) out->push_back({static_cast<int32_t>(i), x[i]});
  }
  while (i < cols) {
    if (out->size() == room) keep_best(static_cast<size_t>(count));
    // A later equal value has a greater id, so only greater values come before the last one.
    const float last = (*out)[static_cast<size_t>(count) - 1].logit;
    while (out->size() < room && (i = kernels.find_greater(x, i, cols, last)) < cols) {
      // Those that follow at once need no new search.
      do {
        out->push_back({static_cast<int32_t>(i), x[i]});
        ++i;
      } while (i < cols && out->size() < room && x[i] > last);
    }
  }
  if (out->size() > static_cast<size_t>(count)) keep_best(static_cast<size_t>(count));
  std::sort(out->begin(), out->end(), Before);
}

}  // namespace tutti::kernels::cpu
