#include "kernels/cpu/cpu_sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/portable_math.h"

namespace tutti::kernels::cpu {
namespace {

// Whether `a` is listed before `b`.
bool Before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// A row is looked at in pieces of this many logits: so few that the candidates of as many pieces as
// candidates are wanted cost no more than a look at the largest of every piece does.
int64_t PieceOf(int64_t cols, int64_t count) {
  int64_t piece = 16;
  while (piece * piece < cols / count) piece *= 2;
  return piece;
}

// The largest of a piece, NaN left out; -Inf if nothing else is there.
float LargestNumber(const KernelTable& kernels, const float* x, int64_t cols) {
  const float largest = kernels.largest(x, cols);
  if (!std::isnan(largest)) return largest;
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < cols; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

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

// Each of `count` pieces has a candidate as large as the count-th largest of the pieces' own
// largest. So those wanted are at least as large; fewer pieces than `count` hold larger ones, and
// of the equals the first come first. That bounds the candidates to choose from, in whatever order
// they lie.
void TopOfRow(const KernelTable& kernels, const float* x, int64_t cols, int64_t count,
              TopScratch* scratch, std::vector<Candidate>* out) {
  out->clear();
  count = std::min(count, cols);
  if (count <= 0) return;
  const int64_t piece = PieceOf(cols, count);
  std::vector<float>& largest = scratch->largest;
  largest.clear();
  for (int64_t begin = 0; begin < cols; begin += piece) {
    largest.push_back(LargestNumber(kernels, x + begin, std::min(piece, cols - begin)));
  }
  float least = -std::numeric_limits<float>::infinity();
  if (static_cast<int64_t>(largest.size()) > count) {
    std::vector<float>& order = scratch->order;
    order.assign(largest.begin(), largest.end());
    std::nth_element(order.begin(), order.begin() + count - 1, order.end(), std::greater<>());
    least = order[static_cast<size_t>(count) - 1];
  }
  int64_t equals = 0;
  for (size_t p = 0; p < largest.size(); ++p) {
    if (largest[p] < least || (largest[p] == least && equals >= count)) continue;
    const int64_t begin = static_cast<int64_t>(p) * piece;
    for (int64_t i = begin; i < std::min(begin + piece, cols); ++i) {
      if (!(x[i] >= least)) continue;  // or it is no number
      if (x[i] == least && ++equals > count) continue;
      out->push_back({static_cast<int32_t>(i), x[i]});
    }
  }
  if (static_cast<int64_t>(out->size()) > count) {
    std::nth_element(out->begin(), out->begin() + count - 1, out->end(), Before);
    out->resize(static_cast<size_t>(count));
  }
  std::sort(out->begin(), out->end(), Before);
}

}  // namespace tutti::kernels::cpu
