// The language of kernels: the few things of CUDA they use, under names of our own, so that the
// same source runs on a GPU and, lane by lane, in the emulator of kernels/cuda/emulated.
//
// A kernel is `TUTTI_KERNEL void Name(TUTTI_PARAMETER NameArgs args)`: one struct of plain values
// without gaps between them, because launches are compared byte by byte (launch_list.h): order the
// members by size, or name the gap. Every thread of a block reaches every Sync; every lane of a
// warp reaches every Shuffle, Any, SumInWarp and Mma.
//
// A kernel that is started by LaunchEarly may begin while the kernels before it still run, so that
// its start costs nothing and it can fetch weights meanwhile. Every thread of it calls
// WaitForEarlier, on every path, and before that it neither reads memory that other kernels write
// nor writes any; memory of Runtime::AllocateConstant may be read. Then its end is later than the
// end of all before it, in any order of beginnings (docs/decisions/0024-short-steps.md).
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/qualifiers.h"

#ifdef __CUDACC__

namespace tutti::kernels::cuda {

TUTTI_DEVICE int ThreadIndex() { return static_cast<int>(threadIdx.x); }
TUTTI_DEVICE int ThreadCount() { return static_cast<int>(blockDim.x); }
TUTTI_DEVICE int64_t BlockX() { return blockIdx.x; }
TUTTI_DEVICE int64_t BlockY() { return blockIdx.y; }
TUTTI_DEVICE int Lane() { return ThreadIndex() % kWarp; }
TUTTI_DEVICE int WarpIndex() { return ThreadIndex() / kWarp; }

// The block's dynamic shared memory, aligned to 16 bytes.
TUTTI_DEVICE char* SharedMemory() {
  extern __shared__ __align__(16) char tutti_shared[];
  return tutti_shared;
}

// Nothing below compute capability 9.0, where no kernel begins early.
TUTTI_DEVICE void WaitForEarlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The kernel after this one may begin, if it is an early one, once all blocks have called this or
// ended.
TUTTI_DEVICE void LetNextBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Brings a line of 128 bytes nearer, without reading it: allowed before WaitForEarlier too, for the
// second-level cache is where all kernels' writes meet.
TUTTI_DEVICE void PrefetchLine(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

TUTTI_DEVICE void SyncBlock() { __syncthreads(); }
TUTTI_DEVICE void SyncWarp() { __syncwarp(); }
// Values of any plain type, word by word.
template <class T>
TUTTI_DEVICE T ShuffleXor(T value, int mask) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  uint32_t words[sizeof(T) / sizeof(uint32_t)];
  memcpy(words, &value, sizeof(T));
  TUTTI_UNROLL
  for (uint32_t& word : words) word = __shfl_xor_sync(0xffffffffu, word, mask);
  memcpy(&value, words, sizeof(T));
  return value;
}
template <class T>
TUTTI_DEVICE T Broadcast(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
TUTTI_DEVICE bool AnyInWarp(bool value) { return __any_sync(0xffffffffu, value) != 0; }

TUTTI_DEVICE int SumInWarp(int value) { return __reduce_add_sync(0xffffffffu, value); }

TUTTI_DEVICE int FetchAdd(int* counter, int value) { return atomicAdd(counter, value); }

// Rounded once; the compiler never fuses by itself (-fmad=false).
TUTTI_DEVICE float FusedMultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// 2^x by the special function unit: within 2 ulp, 0 for -Inf.
TUTTI_DEVICE float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Of four bytes of a word, numbered from the lowest: selector's lowest hexadecimal digit says which
// becomes the lowest.
TUTTI_DEVICE uint32_t PermuteBytes(uint32_t word, uint32_t selector) {
  // Not __byte_perm, of which the compiler makes two and a choice where it knows both selectors.
  uint32_t permuted;
  asm("prmt.b32 %0, %1, %1, %2;" : "=r"(permuted) : "r"(word), "r"(selector));
  return permuted;
}

// The same of the eight bytes of two words, those of `low` before those of `high`.
TUTTI_DEVICE uint32_t PermuteWords(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t permuted;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(permuted) : "r"(low), "r"(high), "r"(selector));
  return permuted;
}
// a * b + c of two bf16 each, rounded once; denormals are kept.
TUTTI_DEVICE uint32_t MultiplyAddPairs(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}

// 16 bytes from global to shared memory, some time before the CopyWait that covers them; zeros when
// not `valid`, and then `from` is not read. Both 16-byte aligned.
TUTTI_DEVICE void CopyAsync16(void* shared, const void* from, bool valid) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
TUTTI_DEVICE void CopyCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last kPending groups of this thread have arrived.
template <int kPending>
TUTTI_DEVICE void CopyWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// c += a * b on the tensor cores: a [16, 16], b [16, 8], c [16, 8] f32, of bf16 or f16 pairs.
//
// Lane 4 g + t holds (PTX, "mma.m16n8k16"):  a[0]: row g, k 2t, 2t+1 · a[1]: row g+8, same k ·
// a[2]: row g, k 2t+8, 2t+9 · a[3]: row g+8, same k;   b[0]: k 2t, 2t+1 of column g · b[1]: k 2t+8,
// 2t+9;   c[0], c[1]: row g, columns 2t, 2t+1 · c[2], c[3]: row g+8.
template <bool kBf16>
TUTTI_DEVICE void Mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// How KernelLaunch::call looks for kernels of Args.
template <class Args>
constexpr auto CallOf() {
  return static_cast<void (*)(const void*, const void*)>(nullptr);
}

}  // namespace tutti::kernels::cuda

#elif defined(TUTTI_EMULATE_GPU)
#include "kernels/cuda/emulated/gpu_emulated.h"
#endif

#if defined(__CUDACC__) || defined(TUTTI_EMULATE_GPU)

namespace tutti::kernels::cuda {

// Hands a kernel to `launcher`; an empty grid is nothing to do.
template <class Args>
void Launch(void (*kernel)(Args), Grid grid, int threads, int shared_bytes, Launcher* launcher,
            const Args& args, bool early = false) {
  static_assert(std::is_trivially_copyable_v<Args> && alignof(Args) <= 8);
  if (grid.x <= 0 || grid.y <= 0) return;
  launcher->Start({.kernel = reinterpret_cast<const void*>(kernel),
                   .call = CallOf<Args>(),
                   .grid = grid,
                   .threads = threads,
                   .shared_bytes = shared_bytes,
                   .argument = &args,
                   .argument_bytes = sizeof(Args),
                   .early = early ? 1 : 0});
}
// The same of a kernel that calls WaitForEarlier.
template <class Args>
void LaunchEarly(void (*kernel)(Args), Grid grid, int threads, int shared_bytes, Launcher* launcher,
                 const Args& args) {
  Launch(kernel, grid, threads, shared_bytes, launcher, args, true);
}

}  // namespace tutti::kernels::cuda

#endif
