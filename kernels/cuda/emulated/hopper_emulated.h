// The operations of kernels/cuda/gpu_hopper.h on the emulated GPU.
#pragma once

#include <cstring>

#include "kernels/cuda/emulated/gpu_emulated.h"
#include "kernels/cuda/hopper_operands.h"

#define TUTTI_LARGE_KERNEL(threads) void
#define TUTTI_BLOCKS_KERNEL(threads, blocks) void

namespace tutti::kernels::cuda {

namespace emulated {

uint32_t AddressOf(const void* shared);
void InitArrivals(ArrivalBarrier* barrier, int arrivals);
void PublishArrivals();
void ArriveWith(ArrivalBarrier* barrier, int bytes);
void AwaitParity(ArrivalBarrier* barrier, uint32_t parity);
void StartBulkCopy(void* shared, const void* from, int bytes, ArrivalBarrier* barrier);
void FenceProxy();
// Of the calling lane; each waits for its warp.
void FenceWgmma();
void StartWgmma(float* c, int sums, const uint32_t* a, uint64_t b, bool bf16);
void CommitWgmma();
void WaitWgmma(int pending);
void AcceptSums(float* c);

}  // namespace emulated

inline int64_t BlockCountX() { return emulated::Here().blocks_x; }
inline uint32_t SharedAddress(const void* shared) { return emulated::AddressOf(shared); }
template <int kCount>
void ReleaseRegisters() {
  emulated::Exchange({});
}
template <int kCount>
void ClaimRegisters() {
  emulated::Exchange({});
}

inline void InitBarrier(ArrivalBarrier* barrier, int arrivals) {
  emulated::InitArrivals(barrier, arrivals);
}
inline void PublishBarriers() { emulated::PublishArrivals(); }
inline void Arrive(ArrivalBarrier* barrier) { emulated::ArriveWith(barrier, 0); }
inline void ArriveExpecting(ArrivalBarrier* barrier, int bytes) {
  emulated::ArriveWith(barrier, bytes);
}
inline void SyncWarpgroup() { emulated::WarpgroupBarrier(); }
inline void AwaitPhase(ArrivalBarrier* barrier, uint32_t parity) {
  emulated::AwaitParity(barrier, parity);
}
inline void CopyBulk(void* shared, const void* from, int bytes, ArrivalBarrier* barrier) {
  emulated::StartBulkCopy(shared, from, bytes, barrier);
}
inline void FenceAsyncProxy() { emulated::FenceProxy(); }

template <bool kBf16, int kCount>
void Wgmma(float (&c)[kCount], const uint32_t (&a)[4], uint64_t b) {
  static_assert(kCount >= 4 && kCount <= 128 && (kCount & (kCount - 1)) == 0);
  emulated::StartWgmma(c, kCount, a, b, kBf16);
}
template <bool kBf16>
void WgmmaFromNothing(float (&c)[32], const uint32_t (&a)[4], uint64_t b) {
  for (float& x : c) x = 0;
  Wgmma<kBf16>(c, a, b);
}
inline void WgmmaFence() { emulated::FenceWgmma(); }
inline void WgmmaCommit() { emulated::CommitWgmma(); }
template <int kPending>
void WgmmaWait() {
  emulated::WaitWgmma(kPending);
}
template <int kCount>
void AcceptSums(float (&c)[kCount]) {
  emulated::AcceptSums(c);
}

}  // namespace tutti::kernels::cuda
