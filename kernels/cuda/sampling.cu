#include "kernels/cuda/ordered_bits.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sampling.h"

namespace tutti::kernels::cuda {
namespace {

TUTTI_DEVICE float Infinity() { return __builtin_huge_valf(); }

// Whichever of two is larger, of equals the one with the smaller id.
struct BetterOf {
  TUTTI_DEVICE DeviceCandidate operator()(const DeviceCandidate& a,
                                          const DeviceCandidate& b) const {
    if (a.id == kUnusableRow || b.id == kUnusableRow) return {kUnusableRow, 0};
    if (a.id == kNoCandidate) return b;
    if (b.id == kNoCandidate) return a;
    if (a.logit != b.logit) return a.logit > b.logit ? a : b;
    return a.id < b.id ? a : b;
  }
};

// A block per row and part.
TUTTI_KERNEL_OF(kRowThreads) void FindBests(TUTTI_PARAMETER BestsArgs args) {
  constexpr int kTogether = 8;  // loads under way
  const float* const row = args.logits + BlockX() * args.stride;
  const auto begin = static_cast<int32_t>(BlockY()) * args.part;
  const int32_t end = args.vocab - begin < args.part ? args.vocab : begin + args.part;
  DeviceCandidate best = {kNoCandidate, -Infinity()};
  bool unusable = false;
  LetNextBegin();
  WaitForEarlier();
  for (int32_t first = begin + ThreadIndex(); first < end; first += kTogether * kRowThreads) {
    float values[kTogether];
    TUTTI_UNROLL
    for (int j = 0; j < kTogether; ++j) {
      const int32_t i = first + j * kRowThreads;
      values[j] = i < end ? row[i] : -Infinity();
    }
    TUTTI_UNROLL
    for (int j = 0; j < kTogether; ++j) {
      unusable = unusable || !(values[j] < Infinity());
      if (values[j] > best.logit) best = {first + j * kRowThreads, values[j]};
    }
  }
  if (unusable) best = {kUnusableRow, 0};
  best = ReduceBlock(best, BetterOf());
  if (ThreadIndex() == 0) args.best[BlockX() * args.parts + BlockY()] = best;
}

struct LargerOrNan {
  TUTTI_DEVICE float operator()(float a, float b) const {
    if (a != a || b != b) return a + b;
    return a > b ? a : b;
  }
};
struct Sum {
  TUTTI_DEVICE double operator()(double a, double b) const { return a + b; }
};

// Of `count` logits, by a block. Numerics: each of kRowThreads partial sums takes every
// kRowThreads-th in order.
TUTTI_DEVICE double LogSumExpOf(const float* row, int32_t count, double inverse_temperature) {
  constexpr int kTogether = 8;  // loads under way
  float largest = -Infinity();
  for (int32_t first = ThreadIndex(); first < count; first += kTogether * kRowThreads) {
    float values[kTogether];
    TUTTI_UNROLL
    for (int j = 0; j < kTogether; ++j) {
      const int32_t i = first + j * kRowThreads;
      values[j] = i < count ? row[i] : -Infinity();
    }
    TUTTI_UNROLL
    for (int j = 0; j < kTogether; ++j) largest = LargerOrNan()(largest, values[j]);
  }
  largest = ReduceBlock(largest, LargerOrNan());
  const bool usable = largest > -Infinity() && largest < Infinity();
  double sum = 0;
  // Loads that do not wait for one another; what lies behind the last is 0, which changes no sum.
  constexpr int kTerms = 4;
  const int32_t end = usable ? count : 0;
  TUTTI_KEEP_LOOP
  for (int32_t first = ThreadIndex(); first < end; first += kTerms * kRowThreads) {
    float values[kTerms];
    TUTTI_UNROLL
    for (int j = 0; j < kTerms; ++j) {
      const int32_t i = first + j * kRowThreads;
      values[j] = i < count ? row[i] : -Infinity();
    }
    TUTTI_UNROLL
    for (int j = 0; j < kTerms; ++j) {
      sum += exp((static_cast<double>(values[j]) - largest) * inverse_temperature);
    }
  }
  sum = ReduceBlock(sum, Sum());
  return usable ? largest * inverse_temperature + log(sum) : largest;
}

// A block per row.
TUTTI_KERNEL void LogSumExp(TUTTI_PARAMETER LogitsArgs args) {
  LetNextBegin();
  WaitForEarlier();
  const double log_sum = LogSumExpOf(args.logits + BlockX() * args.stride,
                                     static_cast<int32_t>(args.vocab), args.inverse_temperature);
  if (ThreadIndex() == 0) args.log_sum[BlockX()] = log_sum;
}

// A block per sum, row and range.
TUTTI_KERNEL void LogSums(TUTTI_PARAMETER LogSumsArgs args) {
  const int32_t row = static_cast<int32_t>(BlockX()) % args.rows;
  LetNextBegin();
  const double inverse_temperature = args.inverse_temperature[BlockX()];
  const int32_t first = args.range[2 * BlockY()], count = args.range[2 * BlockY() + 1];
  WaitForEarlier();
  if (!(inverse_temperature > 0)) return;
  const double log_sum =
      LogSumExpOf(args.logits + row * args.stride + first, count, inverse_temperature);
  if (ThreadIndex() == 0) args.log_sum[BlockX() * args.ranges + BlockY()] = log_sum;
}

TUTTI_KERNEL void Adjust(TUTTI_PARAMETER AdjustArgs args) {
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  LetNextBegin();
  WaitForEarlier();
  if (i >= args.count || args.first[i] == args.first[i + 1]) return;
  float& logit = args.logits[args.row[i] * args.stride + args.id[i]];
  float value = logit;
  for (int32_t j = args.first[i]; j < args.first[i + 1]; ++j) {
    value = (value > 0 ? value / args.repetition[j] : value * args.repetition[j]) + args.bias[j];
  }
  logit = value;
}

// A block per row and kRowThreads logits.
TUTTI_KERNEL void Mask(TUTTI_PARAMETER MaskArgs args) {
  const auto id = static_cast<int32_t>(BlockY() * kRowThreads) + ThreadIndex();
  LetNextBegin();
  WaitForEarlier();
  if (id >= args.vocab) return;
  const auto word = static_cast<uint32_t>(args.masks[BlockX() * args.words + id / 32]);
  if ((word >> (id % 32) & 1) != 0) return;
  args.logits[args.row[BlockX()] * args.stride + id] = -Infinity();
}

TUTTI_KERNEL void Pick(TUTTI_PARAMETER PickArgs args) {
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  LetNextBegin();
  WaitForEarlier();
  if (i < args.count) args.out[i] = args.logits[args.ids[i]];
}

// One block. Finds the wanted-th largest value digit by digit, eight bits at a time, then
// collects the values that are not smaller.
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits == kRowThreads);
constexpr int kSelectSharedBytes = (kDigits + 2) * 4;

TUTTI_KERNEL void Select(TUTTI_PARAMETER SelectArgs args) {
  int* const counts = reinterpret_cast<int*>(SharedMemory());
  int* const chosen = counts + kDigits;  // [digit, how many are still wanted below it]
  const float* const logits = args.logits;
  uint32_t prefix = 0;
  int wanted = args.wanted;
  for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    counts[ThreadIndex()] = 0;
    SyncBlock();
    for (int32_t i = ThreadIndex(); i < args.vocab; i += kRowThreads) {
      const uint32_t bits = OrderedBits(BitsOf(logits[i]));
      const bool same = shift == 32 - kDigitBits || bits >> (shift + kDigitBits) == prefix;
      if (same) FetchAdd(&counts[bits >> shift & (kDigits - 1)], 1);
    }
    SyncBlock();
    if (ThreadIndex() == 0) {
      int digit = kDigits - 1, above = 0;
      while (digit > 0 && above + counts[digit] < wanted) above += counts[digit--];
      chosen[0] = digit;
      chosen[1] = wanted - above;
    }
    SyncBlock();
    prefix = prefix << kDigitBits | static_cast<uint32_t>(chosen[0]);
    wanted = chosen[1];
    SyncBlock();
  }
  // 0 stands for NaN, which is never a candidate.
  const uint32_t smallest = prefix == 0 ? 1 : prefix;
  for (int32_t i = ThreadIndex(); i < args.vocab; i += kRowThreads) {
    const float logit = logits[i];
    if (OrderedBits(BitsOf(logit)) < smallest) continue;
    const int place = FetchAdd(reinterpret_cast<int*>(args.found), 1);
    reinterpret_cast<DeviceCandidate*>(args.found + kSelectCountBytes)[place] = {i, logit};
  }
}

}  // namespace

void LaunchFindBests(const BestsArgs& args, Launcher* launcher) {
  LaunchEarly(&FindBests, {args.rows, args.parts}, kRowThreads, kReduceSharedBytes, launcher, args);
}
void LaunchLogSumExp(const LogitsArgs& args, Launcher* launcher) {
  LaunchEarly(&LogSumExp, {args.rows, 1}, kRowThreads, kReduceSharedBytes, launcher, args);
}
void LaunchLogSums(const LogSumsArgs& args, Launcher* launcher) {
  LaunchEarly(&LogSums, {int64_t{1} * args.sums * args.rows, args.ranges}, kRowThreads,
              kReduceSharedBytes, launcher, args);
}
void LaunchAdjust(const AdjustArgs& args, Launcher* launcher) {
  const int64_t blocks = (args.count + kRowThreads - 1) / kRowThreads;
  LaunchEarly(&Adjust, {blocks, 1}, kRowThreads, 0, launcher, args);
}
void LaunchMask(const MaskArgs& args, Launcher* launcher) {
  LaunchEarly(&Mask, {args.rows, (args.vocab + kRowThreads - 1) / kRowThreads}, kRowThreads, 0,
              launcher, args);
}
void LaunchPick(const PickArgs& args, Launcher* launcher) {
  const int64_t blocks = (args.count + kRowThreads - 1) / kRowThreads;
  LaunchEarly(&Pick, {blocks, 1}, kRowThreads, 0, launcher, args);
}
void LaunchSelect(const SelectArgs& args, Launcher* launcher) {
  Launch(&Select, {}, kRowThreads, kSelectSharedBytes, launcher, args);
}

}  // namespace tutti::kernels::cuda
