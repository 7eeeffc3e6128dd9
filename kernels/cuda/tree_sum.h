// Adds the ranks' vectors element by element, in the tree of kernels/collective.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/gpu.h"

namespace tutti::kernels::cuda {

// Ranks of a stage at most: the leaves of a row-parallel product.
inline constexpr int kTreeRanksMax = 8;

struct TreeSumArgs {
  const float* others = nullptr;  // rank r's values from others + r * slot
  int64_t slot = 0;
  const float* own = nullptr;  // this rank's
  float* out = nullptr;        // may be `own`
  int64_t count = 0;
  int32_t ranks = 2;  // a power of two
  int32_t rank = 0;
};
void LaunchTreeSum(const TreeSumArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
