// A mask of bits over a row of logits (Backend::MaskLogits), in the host's memory.
//
// Pure.  Thread: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace tutti::kernels {

// Words of a mask with a bit for each of so many logits.
constexpr int64_t MaskWords(int64_t logits) { return (logits + 31) / 32; }

// REQUIRES: mask.size() == MaskWords(count)
inline void MaskRow(float* logits, std::span<const uint32_t> mask, int64_t count) {
  constexpr float kExcluded = -std::numeric_limits<float>::infinity();
  for (size_t w = 0; w < mask.size(); ++w) {
    const uint32_t word = mask[w];
    if (word == ~uint32_t{0}) continue;
    float* const first = logits + w * 32;
    const auto size =
        static_cast<size_t>(std::min<int64_t>(32, count - static_cast<int64_t>(w) * 32));
    if (word == 0) {
      std::fill_n(first, size, kExcluded);
      continue;
    }
    for (size_t i = 0; i < size; ++i) first[i] = (word >> i & 1) != 0 ? first[i] : kExcluded;
  }
}

}  // namespace tutti::kernels
