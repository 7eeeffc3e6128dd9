// A GPU on the CPU, for tests: runs kernels of kernels/cuda/gpu.h thread by thread, so that their
// indices, barriers and orders of addition can be checked on machines without a GPU.
//
// Each GPU thread is a fiber; all run on the calling thread, from one barrier to the next, in an
// order that changes from barrier to barrier (schedule.h), some warps far ahead of others.
// Asynchronous copies leave NaN where they will arrive until they are waited for, shared memory
// starts as NaN, and a barrier that some thread never reaches is a failed CHECK. Kernels that may
// begin early cannot reach what others write before they have waited. It cannot show: threads that
// only a shuffle or an Mma holds together while they exchange through memory (here these order
// memory, on a GPU they do not), real rounding inside the tensor cores, speed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <typeinfo>

#include "base/check.h"
#include "kernels/cuda/emulated/tensor_core.h"
#include "kernels/cuda/launch.h"
#include "kernels/float_formats.h"

namespace tutti::kernels::cuda {

namespace emulated {

// Where the running fiber stands.
struct Position {
  int thread = 0;
  int threads = 0;
  int64_t block_x = 0, block_y = 0;
  int64_t blocks_x = 0;
  char* shared = nullptr;
};
const Position& Here();

// The words that a lane gives to an exchange.
inline constexpr int kWords = 12;
using Words = uint32_t[kWords];
// Puts a lane's words into the warp's exchange, waits for all lanes, and returns those of all.
// Valid until the lane's next exchange but one.
const Words* Exchange(const Words& words);
void BlockBarrier();
void WarpgroupBarrier();  // of four warps that begin at a multiple of four
void QueueCopy(void* to, const void* from, bool valid);
void CommitCopies();
void FinishCopies(int pending);
void WaitForEarlier();
// early: every thread has to wait for kernels before. One of the blocks, another each time, runs up
// to there without the memory that others write.
void RunGrid(Grid grid, int threads, int shared_bytes, const std::function<void()>& body,
             bool early = false);

}  // namespace emulated

inline int ThreadIndex() { return emulated::Here().thread; }
inline int ThreadCount() { return emulated::Here().threads; }
inline int64_t BlockX() { return emulated::Here().block_x; }
inline int64_t BlockY() { return emulated::Here().block_y; }
inline int Lane() { return ThreadIndex() % kWarp; }
inline int WarpIndex() { return ThreadIndex() / kWarp; }
inline char* SharedMemory() { return emulated::Here().shared; }
inline void WaitForEarlier() { emulated::WaitForEarlier(); }
inline void LetNextBegin() {}
inline void PrefetchLine(const void*) {}
inline void SyncBlock() { emulated::BlockBarrier(); }
inline void SyncWarp() { emulated::Exchange({}); }

template <class T>
T ShuffleXor(T value, int mask) {
  static_assert(sizeof(T) <= sizeof(emulated::Words));
  emulated::Words words = {};
  std::memcpy(words, &value, sizeof(T));
  const emulated::Words* all = emulated::Exchange(words);
  std::memcpy(&value, all[Lane() ^ mask], sizeof(T));
  return value;
}
template <class T>
T Broadcast(T value, int lane) {
  return ShuffleXor(value, Lane() ^ lane);
}
inline bool AnyInWarp(bool value) {
  const emulated::Words* all = emulated::Exchange({value ? 1u : 0u});
  for (int lane = 0; lane < kWarp; ++lane) {
    if (all[lane][0] != 0) return true;
  }
  return false;
}

inline int SumInWarp(int value) {
  const emulated::Words* all = emulated::Exchange({static_cast<uint32_t>(value)});
  uint32_t sum = 0;
  for (int lane = 0; lane < kWarp; ++lane) sum += all[lane][0];
  return static_cast<int>(sum);
}

inline int FetchAdd(int* counter, int value) {
  const int before = *counter;
  *counter += value;
  return before;
}
inline float FusedMultiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }
inline float Exp2(float x) { return std::exp2(x); }

inline uint32_t PermuteBytes(uint32_t word, uint32_t selector) {
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= (word >> (selector >> 4 * i & 3) * 8 & 0xff) << 8 * i;
  return out;
}

inline uint32_t PermuteWords(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    out |= static_cast<uint32_t>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return out;
}
inline uint32_t MultiplyAddPairs(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t out = 0;
  for (int half = 0; half < 32; half += 16) {
    const auto value = [&](uint32_t pair) {
      return Bf16ToF32(static_cast<uint16_t>(pair >> half));
    };
    out |= static_cast<uint32_t>(F32ToBf16(std::fma(value(a), value(b), value(c)))) << half;
  }
  return out;
}

inline void CopyAsync16(void* shared, const void* from, bool valid) {
  emulated::QueueCopy(shared, from, valid);
}
inline void CopyCommit() { emulated::CommitCopies(); }
template <int kPending>
void CopyWait() {
  emulated::FinishCopies(kPending);
}

// One chain over k: sums that the kernels add up in different orders show as different bits.
template <bool kBf16>
void Mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  // The lane's 8 values of a and 4 of b, as floats.
  emulated::Words words;
  for (int i = 0; i < emulated::kWords; ++i) {
    const uint32_t pair = i < 8 ? a[i / 2] : b[i / 2 - 4];
    const auto bits = static_cast<uint16_t>(pair >> (16 * (i % 2)));
    words[i] = std::bit_cast<uint32_t>(kBf16 ? Bf16ToF32(bits) : F16ToF32(bits));
  }
  const emulated::Words* all = emulated::Exchange(words);
  const int g = Lane() / 4, t = Lane() % 4;
  if (emulated::TensorCoresTruncate()) {
    for (int i = 0; i < 4; ++i) {
      const int row = i / 2, column = 2 * t + i % 2;
      float left[16], right[16];
      for (int k = 0; k < 16; ++k) {
        const int holder = k % 8 / 2, upper = k / 8, odd = k % 2;
        left[k] = std::bit_cast<float>(all[4 * g + holder][4 * upper + 2 * row + odd]);
        right[k] = std::bit_cast<float>(all[4 * column + holder][8 + 2 * upper + odd]);
      }
      c[i] = emulated::TruncatingSum(c[i], left, right);
    }
    return;
  }
  for (int k = 0; k < 16; ++k) {
    const int holder = k % 8 / 2, upper = k / 8, odd = k % 2;
    for (int i = 0; i < 4; ++i) {
      const int row = i / 2, column = 2 * t + i % 2;
      const uint32_t left = all[4 * g + holder][4 * upper + 2 * row + odd];
      const uint32_t right = all[4 * column + holder][8 + 2 * upper + odd];
      c[i] += std::bit_cast<float>(left) * std::bit_cast<float>(right);
    }
  }
}

// Whether every byte of a T belongs to a member. Only GCC can tell.
template <class T>
bool HasNoGaps() {
#if __has_builtin(__builtin_clear_padding)
  alignas(T) unsigned char bytes[sizeof(T)];
  std::memset(bytes, 0xff, sizeof(T));
  __builtin_clear_padding(reinterpret_cast<T*>(bytes));
  for (const unsigned char byte : bytes) {
    if (byte != 0xff) return false;
  }
#endif
  return true;
}

template <class Args>
auto CallOf() {
  static const bool no_gaps = HasNoGaps<Args>();
  CHECK(no_gaps) << "a kernel's argument has bytes of no member: " << typeid(Args).name();
  return +[](const void* kernel, const void* argument) {
    reinterpret_cast<void (*)(Args)>(const_cast<void*>(kernel))(
        *static_cast<const Args*>(argument));
  };
}

}  // namespace tutti::kernels::cuda
