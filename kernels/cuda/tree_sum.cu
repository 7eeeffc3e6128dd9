#include "kernels/cuda/limits.h"
#include "kernels/cuda/tree_sum.h"

namespace tutti::kernels::cuda {
namespace {

template <int kRanks>
TUTTI_KERNEL void TreeSum(TUTTI_PARAMETER TreeSumArgs args) {
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  if (i >= args.count) return;
  float sums[kRanks];
  TUTTI_UNROLL
  for (int rank = 0; rank < kRanks; ++rank) {
    sums[rank] = rank == args.rank ? args.own[i] : args.others[rank * args.slot + i];
  }
  TUTTI_UNROLL
  for (int distance = 1; distance < kRanks; distance *= 2) {
    TUTTI_UNROLL
    for (int rank = 0; rank < kRanks; rank += 2 * distance) {
      sums[rank] = sums[rank] + sums[rank + distance];
    }
  }
  args.out[i] = sums[0];
}

}  // namespace

void LaunchTreeSum(const TreeSumArgs& args, Launcher* launcher) {
  const Grid grid = {.x = (args.count + kRowThreads - 1) / kRowThreads};
  switch (args.ranks) {
    case 2:
      return Launch(&TreeSum<2>, grid, kRowThreads, 0, launcher, args);
    case 4:
      return Launch(&TreeSum<4>, grid, kRowThreads, 0, launcher, args);
    default:
      return Launch(&TreeSum<8>, grid, kRowThreads, 0, launcher, args);
  }
}

}  // namespace tutti::kernels::cuda
