// Floats as whole numbers, for comparing them to the bit.
#pragma once

#include <cstdint>

#include "kernels/cuda/gpu.h"

#ifndef __CUDACC__
#include <bit>
#endif

namespace tutti::kernels::cuda {

TUTTI_DEVICE uint32_t BitsOf(float value) {
#ifdef __CUDACC__
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

TUTTI_DEVICE float FloatOf(uint32_t bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

// Whole numbers in the order of the floats: NaN first, then -Inf up to +Inf; -0 equals 0.
TUTTI_HOST_DEVICE uint32_t OrderedBits(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
  if (bits == 0x80000000u) bits = 0;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace tutti::kernels::cuda
