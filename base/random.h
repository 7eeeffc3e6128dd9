// Counter-based randomness: a number is a function of (seed, counter), so it does not depend on the
// draws before it.
//
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
#pragma once

#include <array>
#include <cstdint>

namespace tutti {

// 128 random bits for (key, counter_high, counter_low).
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_high, uint64_t counter_low);

// 64 random bits.
uint64_t RandomBits(uint64_t seed, uint64_t position, uint64_t stream = 0);

// Uniform in [0, 1), 53 bits.
double RandomUniform(uint64_t seed, uint64_t position, uint64_t stream = 0);

// A generator for tests, simulation and placement of load: walks the counter of one seed.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  uint64_t Bits() { return RandomBits(seed_, position_++, stream_); }
  double Uniform() { return RandomUniform(seed_, position_++, stream_); }
  // Uniform in [low, high].  REQUIRES: low <= high
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Bits() % (static_cast<uint64_t>(high - low) + 1));
  }
  bool Chance(double probability) { return Uniform() < probability; }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_ = 0;
};

}  // namespace tutti
