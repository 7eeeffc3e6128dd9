// Sums and other reductions over the threads of a warp or a block, in one fixed tree.
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/limits.h"

namespace tutti::kernels::cuda {

// combine must give the same bits for (a, b) as for (b, a): every lane ends with the same value.
template <class T, class Fn>
TUTTI_DEVICE T ReduceWarp(T value, const Fn& combine) {
  for (int mask = 1; mask < kWarp; mask *= 2) value = combine(value, ShuffleXor(value, mask));
  return value;
}

inline constexpr int kReduceSharedBytes = kRowThreads / kWarp * 16;

// Of a block of kThreads, through 16 bytes of shared memory for each of its warps; all threads get
// it.
template <int kThreads = kRowThreads, class T, class Fn>
TUTTI_DEVICE T ReduceBlock(T value, const Fn& combine) {
  static_assert(sizeof(T) <= 16);
  T* const parts = reinterpret_cast<T*>(SharedMemory());
  value = ReduceWarp(value, combine);
  SyncBlock();  // the reduction before may still be read
  if (Lane() == 0) parts[WarpIndex()] = value;
  SyncBlock();
  value = parts[0];
  for (int i = 1; i < kThreads / kWarp; ++i) value = combine(value, parts[i]);
  return value;
}

}  // namespace tutti::kernels::cuda
