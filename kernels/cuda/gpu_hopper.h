// As gpu.h, for compute capability 9.0 alone (Hopper; files that include this are compiled for it
// and nothing else): tensor cores that a warpgroup starts and waits for, copies that one thread
// orders for all, and the barriers on which both are waited for.
//
// Two parties see shared memory: threads, by ordinary reads and writes, and the asynchronous proxy,
// which is bulk copies and the reads of Wgmma. The proxy sees writes of threads before their
// FenceAsyncProxy; threads see its writes after they waited on the copy's barrier.
#pragma once

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/hopper_operands.h"

#ifdef __CUDACC__

// A kernel whose blocks have a multiprocessor each.
#define TUTTI_LARGE_KERNEL(threads) TUTTI_BLOCKS_KERNEL(threads, 1)
// One of which so many blocks fit a multiprocessor's registers.
#define TUTTI_BLOCKS_KERNEL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)

namespace tutti::kernels::cuda {

TUTTI_DEVICE int64_t BlockCountX() { return gridDim.x; }

// Address of shared memory as instructions and descriptors have it.
TUTTI_DEVICE uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// The registers of each thread of a warpgroup from here on, all of whose threads call it: one
// warpgroup can claim those that another has released.
template <int kCount>
TUTTI_DEVICE void ReleaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
TUTTI_DEVICE void ClaimRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// By one thread, which then calls PublishBarriers; others use it after a SyncBlock.
TUTTI_DEVICE void InitBarrier(ArrivalBarrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}
TUTTI_DEVICE void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
TUTTI_DEVICE void Arrive(ArrivalBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}
// Arrives, and announces bytes to the phase.
TUTTI_DEVICE void ArriveExpecting(ArrivalBarrier* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
// A SyncBlock of a warpgroup alone.
TUTTI_DEVICE void SyncWarpgroup() {
  // Barrier 0 is the block's.
  asm volatile("bar.sync %0, %1;" ::"r"(1 + WarpIndex() / 4), "n"(kWarpgroup) : "memory");
}
// Until the phase of that parity has ended.
TUTTI_DEVICE void AwaitPhase(ArrivalBarrier* barrier, uint32_t parity) {
  uint32_t ended = 0;
  while (ended == 0) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n"
        "}\n"
        : "=r"(ended)
        : "r"(SharedAddress(barrier)), "r"(parity)
        : "memory");
  }
}
// `bytes` from global to shared memory, which arrive at the barrier.  REQUIRES: both addresses and
// `bytes` are multiples of 16
TUTTI_DEVICE void CopyBulk(void* shared, const void* from, int bytes, ArrivalBarrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(shared)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}
TUTTI_DEVICE void FenceAsyncProxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// c += a * b for a warpgroup: a [64, 16] in registers, b [16, 2 kCount] in shared memory, c [64,
// 2 kCount] f32. Of warp w it is rows 16 w to 16 w + 15 of a and c; its lanes hold them as those of
// Mma do: a as there, c[4 j] to c[4 j + 3] as there for columns 8 j to 8 j + 7.
//
// It is only started. Until a WgmmaWait says that it is done, a and the matrix in shared memory are
// not to be changed; c is not to be touched until AcceptSums, except that further Wgmma may add to
// it. Instructions up to a WgmmaCommit are one group; before the first of a group a WgmmaFence
// orders it after the writes of its registers.
#define TUTTI_WGMMA_C4 "%0, %1, %2, %3"
#define TUTTI_WGMMA_C8 TUTTI_WGMMA_C4 ", %4, %5, %6, %7"
#define TUTTI_WGMMA_C16 TUTTI_WGMMA_C8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TUTTI_WGMMA_C32 \
  TUTTI_WGMMA_C16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TUTTI_WGMMA_C64                                                              \
  TUTTI_WGMMA_C32                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TUTTI_WGMMA_C128                                                                       \
  TUTTI_WGMMA_C64                                                                              \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"           \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"           \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110"     \
  ", %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125" \
  ", %126, %127"
#define TUTTI_C4(i) "+f"(c[i]), "+f"(c[(i) + 1]), "+f"(c[(i) + 2]), "+f"(c[(i) + 3])
#define TUTTI_C8(i) TUTTI_C4(i), TUTTI_C4((i) + 4)
#define TUTTI_C16(i) TUTTI_C8(i), TUTTI_C8((i) + 8)
#define TUTTI_C32(i) TUTTI_C16(i), TUTTI_C16((i) + 16)
#define TUTTI_C64(i) TUTTI_C32(i), TUTTI_C32((i) + 32)
#define TUTTI_C128(i) TUTTI_C64(i), TUTTI_C64((i) + 64)
//   factors: the places of a and b among the operands, which follow those of c
#define TUTTI_WGMMA(count, columns, factors)                                                \
  template <bool kBf16>                                                                     \
  TUTTI_DEVICE void Wgmma(float(&c)[count], const uint32_t(&a)[4], uint64_t b) {            \
    if constexpr (kBf16) {                                                                  \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" columns                              \
                   "k16.f32.bf16.bf16 {" TUTTI_WGMMA_C##count "}, " factors ", 1, 1, 1, 0;" \
                   : TUTTI_C##count(0)                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                   \
    } else {                                                                                \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" columns                              \
                   "k16.f32.f16.f16 {" TUTTI_WGMMA_C##count "}, " factors ", 1, 1, 1, 0;"   \
                   : TUTTI_C##count(0)                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                   \
    }                                                                                       \
  }
TUTTI_WGMMA(4, "8", "{%4, %5, %6, %7}, %8")
TUTTI_WGMMA(8, "16", "{%8, %9, %10, %11}, %12")
TUTTI_WGMMA(16, "32", "{%16, %17, %18, %19}, %20")
TUTTI_WGMMA(32, "64", "{%32, %33, %34, %35}, %36")
TUTTI_WGMMA(64, "128", "{%64, %65, %66, %67}, %68")
TUTTI_WGMMA(128, "256", "{%128, %129, %130, %131}, %132")
#define TUTTI_D8(i)                                                                   \
  "=f"(c[i]), "=f"(c[(i) + 1]), "=f"(c[(i) + 2]), "=f"(c[(i) + 3]), "=f"(c[(i) + 4]), \
      "=f"(c[(i) + 5]), "=f"(c[(i) + 6]), "=f"(c[(i) + 7])
#define TUTTI_D32 TUTTI_D8(0), TUTTI_D8(8), TUTTI_D8(16), TUTTI_D8(24)
// c = a * b: the first of a chain.
template <bool kBf16>
TUTTI_DEVICE void WgmmaFromNothing(float (&c)[32], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kBf16) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" TUTTI_WGMMA_C32
                 "}, {%32, %33, %34, %35}, %36, 0, 1, 1, 0;"
                 : TUTTI_D32
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" TUTTI_WGMMA_C32
                 "}, {%32, %33, %34, %35}, %36, 0, 1, 1, 0;"
                 : TUTTI_D32
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
}
#undef TUTTI_WGMMA
#undef TUTTI_WGMMA_C4
#undef TUTTI_WGMMA_C8
#undef TUTTI_WGMMA_C16
#undef TUTTI_WGMMA_C32
#undef TUTTI_WGMMA_C64
#undef TUTTI_WGMMA_C128
#undef TUTTI_C4
#undef TUTTI_D8
#undef TUTTI_D32
#undef TUTTI_C8
#undef TUTTI_C16
#undef TUTTI_C32
#undef TUTTI_C64
#undef TUTTI_C128

TUTTI_DEVICE void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TUTTI_DEVICE void WgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all but the last kPending groups of this warp are through.
template <int kPending>
TUTTI_DEVICE void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Gives `c` back after all that added to it were waited for; only then may it be used. (It keeps
// the compiler from moving a use to before the wait.)
template <int kCount>
TUTTI_DEVICE void AcceptSums(float (&c)[kCount]) {
  TUTTI_UNROLL
  for (float& x : c) asm volatile("" : "+f"(x)::"memory");
}

}  // namespace tutti::kernels::cuda

#elif defined(TUTTI_EMULATE_GPU)
#include "kernels/cuda/emulated/hopper_emulated.h"
#endif
