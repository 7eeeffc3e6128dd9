// Operands of the instructions of compute capability 9.0, as plain values: the shape of one Wgmma,
// a barrier in shared memory, and the descriptor of a matrix there (gpu_hopper.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/qualifiers.h"

namespace tutti::kernels::cuda {

// Four warps, of which the first's index is a multiple of four.
inline constexpr int kWarpgroup = 4 * kWarp;
// Features of one Wgmma: 16 of each warp. k of one.
inline constexpr int kWgmmaOut = 64;
inline constexpr int kWgmmaK = 16;

// A barrier in shared memory that counts arrivals and bytes. A phase ends when as many have arrived
// as it was made for and all bytes that were announced are there; then the next begins. Phases are
// told apart by parity: 0 the first, 1 the second. The one before the first counts as ended.
struct alignas(8) ArrivalBarrier {
  uint64_t state;
};

// Where a matrix lies in shared memory, for Wgmma: rows of k, in core matrices of 8 rows by 16
// bytes, each 128 bytes in a row. From one to the next along k are `k_bytes`, from 8 rows to the
// next 8 `row_bytes`. (PTX, "Matrix descriptor"; no swizzle. As rows of k, K is the leading
// dimension.)   REQUIRES: all are multiples of 16 below 2^18
TUTTI_HOST_DEVICE uint64_t MatrixDescriptor(uint32_t address, uint32_t k_bytes,
                                            uint32_t row_bytes) {
  return uint64_t{address >> 4} | uint64_t{k_bytes >> 4} << 16 | uint64_t{row_bytes >> 4} << 32;
}

// The matrix `bytes` behind one, in the same memory.
TUTTI_HOST_DEVICE uint64_t MatrixBehind(uint64_t descriptor, int bytes) {
  // The address is in the lower word, which it does not leave.
  const uint32_t low = static_cast<uint32_t>(descriptor) + static_cast<uint32_t>(bytes) / 16;
  return (descriptor >> 32 << 32) | low;
}

}  // namespace tutti::kernels::cuda
