// How a vector that ranks add up is cut: plain arithmetic.
//
// Short vectors go to every rank whole, and each adds all of them: one message each way. Long ones
// are cut into a part per rank; each rank gets its part from all others, adds, and gives the sums
// to all: a rank receives twice the vector, less a share, instead of once per other rank
// (reduce-scatter and all-gather of Thakur, Rabenseifner, Gropp: Optimization of collective
// communication operations in MPICH, 2005). The tree of a value's sum is the same either way.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {

inline constexpr auto kExchangeWorkBytes = kGpuExchangeWorkBytes;
// Values of a vector that is sent whole: up to here a message costs its latency rather than its
// length (256 KiB take 0.6 us of 450 GB/s).
inline constexpr int64_t kWholeValuesMax = (int64_t{256} << 10) / 4;
// Parts begin at multiples of 128 bytes, a line of the device's memory.
inline constexpr int64_t kPartMultiple = 32;

// Values that are exchanged at once; longer vectors take several turns.
inline int64_t SliceValuesMax(int ranks) {
  const int64_t part = kExchangeWorkBytes / 4 / ranks / kPartMultiple * kPartMultiple;
  return part * ranks;
}

// Where others' values arrive: rank r's at r * SlotValues in the work space.
inline int64_t SlotValues(int64_t count, int ranks) {
  const int64_t even = (count + ranks - 1) / ranks;
  return (even + kPartMultiple - 1) / kPartMultiple * kPartMultiple;
}

struct Part {
  int64_t begin = 0;
  int64_t size = 0;  // may be 0 for the last ranks
};
inline Part PartOf(int64_t count, int ranks, int rank) {
  const int64_t slot = SlotValues(count, ranks);
  const int64_t begin = std::min(slot * rank, count);
  return {begin, std::min(slot, count - begin)};
}

}  // namespace tutti::kernels::cuda
