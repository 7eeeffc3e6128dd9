#include "kernels/cpu/cpu_sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tutti::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Whether `a` is listed before `b`.
bool Before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Above this share of the row, sorting out the largest beats a heap that nearly every value would
// enter.
constexpr int64_t kHeapShare = 8;

void KeepLargest(const KernelTable& kernels, const float* x, int64_t cols, int64_t count,
                 std::vector<Candidate>* heap) {
  int64_t i = 0;
  for (; i < cols && static_cast<int64_t>(heap->size()) < count; ++i) {
    if (!std::isnan(x[i])) heap->push_back({static_cast<int32_t>(i), x[i]});
  }
  // The front is the last candidate. A later equal value has a greater id, so only greater values
  // displace it.
  std::make_heap(heap->begin(), heap->end(), Before);
  while ((i = kernels.find_greater(x, i, cols, heap->front().logit)) < cols) {
    std::pop_heap(heap->begin(), heap->end(), Before);
    heap->back() = {static_cast<int32_t>(i), x[i]};
    std::push_heap(heap->begin(), heap->end(), Before);
    ++i;
  }
  std::sort_heap(heap->begin(), heap->end(), Before);
}

}  // namespace

int32_t ArgMaxOfRow(const KernelTable& kernels, const float* x, int64_t cols) {
  const float largest = kernels.largest(x, cols);
  if (std::isnan(largest) || std::isinf(largest)) return -1;
  return static_cast<int32_t>(kernels.find_equal(x, 0, cols, largest));
}

double Log(double x) {
  // x = 2^exponent * m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
  // 0.1716. The series in s^2 < 0.0295 loses less than 1e-18 after ten terms.
  constexpr double kLn2 = 0.693147180559945309417;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double y = s * s;
  double p = 0;
  for (int k = 21; k >= 1; k -= 2) p = p * y + 1.0 / k;
  return static_cast<double>(exponent) * kLn2 + 2 * s * p;
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

void TopOfRow(const KernelTable& kernels, const float* x, int64_t cols, int64_t count,
              std::vector<Candidate>* out) {
  out->clear();
  count = std::min(count, cols);
  if (count <= 0) return;
  if (count * kHeapShare <= cols) {
    out->reserve(static_cast<size_t>(count));
    KeepLargest(kernels, x, cols, count, out);
    return;
  }
  out->reserve(static_cast<size_t>(cols));
  for (int64_t i = 0; i < cols; ++i) {
    if (!std::isnan(x[i])) out->push_back({static_cast<int32_t>(i), x[i]});
  }
  const auto keep = static_cast<int64_t>(std::min<size_t>(out->size(), static_cast<size_t>(count)));
  std::partial_sort(out->begin(), out->begin() + keep, out->end(), Before);
  out->resize(static_cast<size_t>(keep));
}

}  // namespace tutti::kernels::cpu
