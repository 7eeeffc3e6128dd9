#include "kernels/cuda/experts.h"
#include "kernels/cuda/ordered_bits.h"
#include "kernels/cuda/reduce.h"

namespace tutti::kernels::cuda {
namespace {

struct Sum {
  TUTTI_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  TUTTI_DEVICE uint64_t operator()(uint64_t a, uint64_t b) const { return a > b ? a : b; }
};

TUTTI_KERNEL void ScaleRows(TUTTI_PARAMETER ScaleRowsArgs args) {
  const int64_t r = BlockX(), c = BlockY() * ThreadCount() + ThreadIndex();
  if (c < args.cols) args.x[r * args.stride + c] *= args.scale[r];
}

// A warp per row. Expert e belongs to lane e % 32, which alone marks it as taken.
TUTTI_KERNEL void SelectExperts(TUTTI_PARAMETER SelectExpertsArgs args) {
  const float* const logits = args.logits + BlockX() * args.stride;
  char* const taken = SharedMemory();  // [experts], 0 or 1
  for (int32_t e = Lane(); e < args.experts; e += kWarp) taken[e] = 0;
  float largest = 0;
  for (int32_t n = 0; n < args.count; ++n) {
    uint64_t best = 0;
    for (int32_t e = Lane(); e < args.experts; e += kWarp) {
      const uint64_t order = ExpertOrder(OrderedBits(BitsOf(logits[e])), e);
      if (taken[e] == 0 && order > best) best = order;
    }
    const int32_t e = ExpertOf(ReduceWarp(best, Larger()));
    if (n == 0) largest = logits[e];  // NaN only when all are
    if (e % kWarp == Lane()) taken[e] = 1;
  }
  SyncWarp();
  float total = 0;
  for (int32_t e = Lane(); e < args.experts; e += kWarp) {
    const float logit = logits[e];
    const bool counts = !args.normalise || taken[e] != 0 || logit != logit;
    if (counts) total += expf(logit - largest);
  }
  total = ReduceWarp(total, Sum());
  const int64_t first = BlockX() * args.count;
  for (int32_t e = Lane(); e < args.experts; e += kWarp) {
    if (taken[e] == 0) continue;
    int32_t place = 0;
    for (int32_t before = 0; before < e; ++before) place += taken[before];
    args.chosen[first + place] = e;
    args.shares[first + place] = expf(logits[e] - largest) / total;
  }
}

TUTTI_KERNEL void SumRows(TUTTI_PARAMETER SumRowsArgs args) {
  const int64_t r = BlockX(), c = BlockY() * ThreadCount() + ThreadIndex();
  if (c >= args.cols) return;
  const int32_t* const source = args.source + r * args.terms;
  float sum = 0;
  if (args.weights == nullptr) {
    sum = args.in[source[0] * args.in_stride + c];
  } else {
    const float* const weights = args.weights + r * args.terms;
    for (int64_t j = 0; j < args.terms; ++j) {
      sum = FusedMultiplyAdd(weights[j], args.in[source[j] * args.in_stride + c], sum);
    }
  }
  args.out[r * args.out_stride + c] = sum;
}

}  // namespace

void LaunchScaleRows(const ScaleRowsArgs& args, Launcher* launcher) {
  Launch(&ScaleRows, GridOver(args.rows, args.cols, kRowThreads), kRowThreads, 0, launcher, args);
}
void LaunchSelectExperts(const SelectExpertsArgs& args, Launcher* launcher) {
  Launch(&SelectExperts, {args.rows, 1}, kWarp, args.experts, launcher, args);
}
void LaunchSumRows(const SumRowsArgs& args, Launcher* launcher) {
  Launch(&SumRows, GridOver(args.rows, args.cols, kRowThreads), kRowThreads, 0, launcher, args);
}

}  // namespace tutti::kernels::cuda
