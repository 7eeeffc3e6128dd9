// The order of the emulated GPU where a real one runs side by side: the blocks of a grid,
// the warps of a block and the lanes of a warp, each time another. A kernel that misses a barrier
// gives other bits in some orders.
#pragma once

#include <cstdint>
#include <numeric>

#include "base/random.h"

namespace tutti::kernels::cuda::emulated {

// Gives the numbers 0 to count - 1, each once.
class Order {
 public:
  Order(int64_t count, Random* random) : count_(count) {
    if (count <= 1) return;
    const uint64_t bits = random->Bits();
    next_ = static_cast<int64_t>((bits >> 32) % static_cast<uint64_t>(count));
    stride_ = static_cast<int64_t>((bits & 0xffffffffu) % static_cast<uint64_t>(count - 1)) + 1;
    while (std::gcd(stride_, count) != 1) ++stride_;
  }
  int64_t Next() {
    const int64_t number = next_;
    next_ += stride_;
    if (next_ >= count_) next_ -= count_;
    return number;
  }

 private:
  const int64_t count_;
  int64_t next_ = 0, stride_ = 1;
};

// From here on; the process begins with seed 1. The same launches with the same seed run the same.
void SeedSchedule(uint64_t seed);

}  // namespace tutti::kernels::cuda::emulated
