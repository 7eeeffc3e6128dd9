#include "base/random.h"

namespace tutti {

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * c[0], p1 = kMultiplier1 * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

uint64_t RandomBits(uint64_t seed, uint64_t position, uint64_t stream) {
  const auto words = Philox(seed, stream, position);
  return (static_cast<uint64_t>(words[1]) << 32) | words[0];
}

double RandomUniform(uint64_t seed, uint64_t position, uint64_t stream) {
  return static_cast<double>(RandomBits(seed, position, stream) >> 11) * 0x1.0p-53;
}

}  // namespace tutti
