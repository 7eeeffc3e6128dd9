// The operators of kernels/family_operators.h, as kernels. A row's bits depend on that row alone:
// its sums run over a warp's 32 partial sums, or over its own terms in order.
#pragma once

#include <cstdint>

#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

struct ScaleRowsArgs {
  float* x = nullptr;  // [rows, cols]
  int64_t stride = 0;
  int64_t rows = 0, cols = 0;
  const float* scale = nullptr;  // [rows]
};
void LaunchScaleRows(const ScaleRowsArgs& args, Launcher* launcher);

struct SelectExpertsArgs {
  const float* logits = nullptr;  // [rows, experts]
  int64_t stride = 0;
  int64_t rows = 0;
  int32_t experts = 0;
  int32_t count = 0;  // 1 to experts
  bool normalise = false;
  uint8_t gap[7] = {};
  int32_t* chosen = nullptr;  // [rows, count]
  float* shares = nullptr;    // [rows, count]
};
void LaunchSelectExperts(const SelectExpertsArgs& args, Launcher* launcher);

// out[r, :] = the sum of weights[r * terms + j] * in[source[r * terms + j], :], j in order. Without
// weights: the one source row, as it is.
struct SumRowsArgs {
  const float* in = nullptr;
  int64_t in_stride = 0;
  const int32_t* source = nullptr;  // [rows * terms]
  const float* weights = nullptr;   // [rows * terms], or nullptr with terms == 1
  int64_t terms = 1;
  float* out = nullptr;  // [rows, cols]
  int64_t out_stride = 0;
  int64_t rows = 0, cols = 0;
};
void LaunchSumRows(const SumRowsArgs& args, Launcher* launcher);

// Whole numbers in the order in which experts are taken: larger logits first, of equal ones the
// smaller index, NaN last. Never 0, which stands for no expert.
TUTTI_HOST_DEVICE uint64_t ExpertOrder(uint32_t ordered_logit, int32_t expert) {
  return static_cast<uint64_t>(ordered_logit) << 32 | (0xffffffffu - static_cast<uint32_t>(expert));
}
TUTTI_HOST_DEVICE int32_t ExpertOf(uint64_t order) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(order));
}

}  // namespace tutti::kernels::cuda
