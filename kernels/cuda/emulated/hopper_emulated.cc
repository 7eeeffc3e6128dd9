#include "kernels/cuda/emulated/hopper_emulated.h"

#include <cstring>

#include "base/check.h"
#include "kernels/cuda/emulated/async_proxy.h"
#include "kernels/cuda/emulated/machine.h"

namespace tutti::kernels::cuda::emulated {
namespace {

void Put(const void* pointer, uint32_t* words) { std::memcpy(words, &pointer, sizeof(pointer)); }
template <class T>
T* Pointer(const uint32_t* words) {
  T* pointer;
  std::memcpy(&pointer, words, sizeof(pointer));
  return pointer;
}

// By one lane when all of its warp have come, before any goes on.
template <class Action>
void OncePerWarp(const Words& words, const Action& action) {
  const Words* const all = Exchange(words);
  if (Lane() == 0) action(all);
  Exchange({});
}

}  // namespace

uint32_t AddressOf(const void* shared) { return TheProxy().Address(shared); }
void InitArrivals(ArrivalBarrier* barrier, int arrivals) {
  TheProxy().InitBarrier(barrier, arrivals);
}
void PublishArrivals() { TheProxy().PublishBarriers(); }
void ArriveWith(ArrivalBarrier* barrier, int bytes) { TheProxy().Arrive(barrier, bytes); }
void AwaitParity(ArrivalBarrier* barrier, uint32_t parity) {
  Dawdle();
  while (!TheProxy().Ended(barrier, parity)) Yield();
  NoteProgress();
}
void StartBulkCopy(void* shared, const void* from, int bytes, ArrivalBarrier* barrier) {
  CheckMayCopy(from);
  TheProxy().StartCopy(shared, from, bytes, barrier);
}
void FenceProxy() { TheProxy().Fence(); }

void FenceWgmma() { SetFenced(true); }

void StartWgmma(float* c, int sums, const uint32_t* a, uint64_t b, bool bf16) {
  Words words = {};
  Put(c, words);
  Put(a, words + 2);
  std::memcpy(words + 4, &b, sizeof(b));
  words[6] = IsFenced() ? 1 : 0;
  OncePerWarp(words, [&](const Words* all) {
    AsyncProxy::Lanes lanes;
    for (int lane = 0; lane < kWarp; ++lane) {
      lanes.c[lane] = Pointer<float>(all[lane]);
      lanes.a[lane] = Pointer<const uint32_t>(all[lane] + 2);
      lanes.fenced[lane] = all[lane][6] != 0;
      CHECK(std::memcmp(all[lane] + 4, &b, sizeof(b)) == 0)
          << "lanes of a warp gave a Wgmma different matrices";
    }
    TheProxy().StartWgmma(WarpIndex(), lanes, sums, b, bf16);
  });
}

void CommitWgmma() {
  SetFenced(false);
  OncePerWarp({}, [](const Words*) { TheProxy().Commit(WarpIndex()); });
}

void WaitWgmma(int pending) {
  OncePerWarp({}, [pending](const Words*) { TheProxy().Wait(WarpIndex(), pending); });
}

void AcceptSums(float* c) {
  Words words = {};
  Put(c, words);
  OncePerWarp(words,
              [](const Words* all) { TheProxy().AcceptSums(WarpIndex(), Pointer<float>(all[0])); });
}

}  // namespace tutti::kernels::cuda::emulated
