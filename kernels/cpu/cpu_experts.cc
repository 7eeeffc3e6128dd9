#include "kernels/cpu/cpu_experts.h"

#include <algorithm>
#include <cmath>

namespace tutti::kernels::cpu {
namespace {

// NaN last, equal ones by index: a total order for any row.
bool LikelierThan(const float* logits, int32_t a, int32_t b) {
  const bool a_nan = std::isnan(logits[a]);
  const bool b_nan = std::isnan(logits[b]);
  if (a_nan != b_nan) return b_nan;
  if (!a_nan && logits[a] != logits[b]) return logits[a] > logits[b];
  return a < b;
}

}  // namespace

void SelectExpertsOfRow(const KernelTable& kernels, const float* logits, int64_t cols,
                        bool normalise, std::span<int32_t> experts, std::span<float> shares) {
  // Insertion into the few that are kept, best first.
  size_t kept = 0;
  for (int32_t id = 0; id < static_cast<int32_t>(cols); ++id) {
    size_t at = kept;
    while (at > 0 && LikelierThan(logits, id, experts[at - 1])) --at;
    if (at == experts.size()) continue;
    if (kept < experts.size()) ++kept;
    for (size_t i = kept - 1; i > at; --i) experts[i] = experts[i - 1];
    experts[at] = id;
  }
  const float largest = kernels.largest(logits, cols);
  std::sort(experts.begin(), experts.end());
  double total = normalise ? 0 : kernels.sum_exp(logits, cols, largest, 1);
  for (size_t i = 0; i < experts.size(); ++i) {
    const double power = kernels.sum_exp(logits + experts[i], 1, largest, 1);
    shares[i] = static_cast<float>(power);
    if (normalise) total += power;
  }
  for (float& share : shares) share = static_cast<float>(share / total);
}

}  // namespace tutti::kernels::cpu
