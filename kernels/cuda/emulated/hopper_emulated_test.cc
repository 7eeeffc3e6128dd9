// The emulated GPU sees the mistakes that compute capability 9.0 invites, each beside the same
// kernel without it: a ring of bulk copies feeds Wgmma, and something comes too early or is not
// ordered.
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulated/async_proxy.h"
#include "kernels/cuda/emulated/schedule.h"
#include "kernels/cuda/gpu_hopper.h"
#include "kernels/float_formats.h"

namespace tutti::kernels::cuda {
namespace {

constexpr int kSeeds = 16;
constexpr int kSteps = 9, kStages = 2;
constexpr int kColumns = 128, kSums = kColumns / 2;
constexpr int kTileBytes = kColumns * kWgmmaK * 2;
constexpr int kRowBytes = 2 * 128;  // of 8 columns: two core matrices

// The mistake that a kernel makes.
enum Fault : int64_t {
  kNone,
  kReleasesTooEarly,   // before the Wgmma that reads the stage was waited for
  kDoesNotWait,        // reads a stage whose copy may be under way
  kExpectsTooLittle,   // the barrier ends its phase before all bytes are there
  kChangesWeights,     // registers of a Wgmma that is under way
  kTakesTooEarly,      // the sums, after waiting for all groups but the last
  kWritesSums,         // while a Wgmma adds to them
  kForgetsFence,       // of registers
  kForgetsProxyFence,  // of threads' writes to shared memory
  kForgetsPublishing,  // of barriers
  kLeaves,             // while something is under way
  kReadsSums,          // before they are taken
  kWrongStride         // in the descriptor
};

struct Args {
  const uint16_t* in = nullptr;  // [kSteps] tiles of B, as core matrices
  float* out = nullptr;          // [kSums][128 threads]
  Fault fault = kNone;
};

class Device : public Launcher {
 public:
  void Start(const KernelLaunch& launch) override {
    emulated::RunGrid(launch.grid, launch.threads, launch.shared_bytes,
                      [&] { launch.call(launch.kernel, launch.argument); });
  }
};

uint32_t One() { return F32ToBf16(1) * 0x10001u; }

// A warpgroup that multiplies and a warp that fetches. A is 1 in every place, in step s times s
// + 1.
TUTTI_LARGE_KERNEL(160) Ring(TUTTI_PARAMETER Args args) {
  auto* const full = reinterpret_cast<ArrivalBarrier*>(SharedMemory() + kStages * kTileBytes);
  ArrivalBarrier* const empty = full + kStages;
  if (ThreadIndex() == 0) {
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(full + i, 1);
      InitBarrier(empty + i, 4);
    }
    if (args.fault != kForgetsPublishing) PublishBarriers();
  }
  SyncBlock();
  const auto parity = [](int step) { return static_cast<uint32_t>(step / kStages % 2); };
  if (WarpIndex() == 4) {
    for (int step = 0; step < kSteps; ++step) {
      const int stage = step % kStages;
      AwaitPhase(empty + stage, parity(step) ^ 1);
      // Two halves, so that one may come before the other.
      constexpr int kHalf = kTileBytes / 2;
      if (Lane() == 0) {
        ArriveExpecting(full + stage, args.fault == kExpectsTooLittle ? kHalf : kTileBytes);
      }
      SyncWarp();
      if (Lane() < 2) {
        CopyBulk(SharedMemory() + stage * kTileBytes + Lane() * kHalf,
                 args.in + step * kTileBytes / 2 + Lane() * kHalf / 2, kHalf, full + stage);
      }
    }
    return;
  }
  float sum[kSums] = {};
  uint32_t even[4], odd[4];
  const auto begin = [&](int step, uint32_t(&a)[4]) {
    if (args.fault != kDoesNotWait) AwaitPhase(full + step % kStages, parity(step));
    for (uint32_t& x : a) x = F32ToBf16(static_cast<float>(step + 1)) * 0x10001u;
    if (args.fault != kForgetsFence) WgmmaFence();
    const uint32_t at = SharedAddress(SharedMemory() + step % kStages * kTileBytes);
    const uint32_t row_bytes = args.fault == kWrongStride ? kRowBytes / 2 : kRowBytes;
    Wgmma<true>(sum, a, MatrixDescriptor(at, 128, row_bytes));
    WgmmaCommit();
    if (args.fault == kChangesWeights) a[1] = 0;
    if (args.fault == kWritesSums && step == 3) sum[5] = 1;
  };
  const auto release = [&](int step) {
    SyncWarp();
    if (Lane() == 0) Arrive(empty + step % kStages);
  };
  for (int step = 0; step < kSteps; ++step) {
    begin(step, step % 2 == 0 ? even : odd);
    if (args.fault == kReleasesTooEarly) {
      release(step);
      WgmmaWait<1>();
    } else {
      WgmmaWait<1>();
      if (step > 0) release(step - 1);
    }
  }
  if (args.fault != kTakesTooEarly) WgmmaWait<0>();
  if (args.fault != kReleasesTooEarly) release(kSteps - 1);
  if (args.fault == kLeaves) return;
  if (args.fault != kReadsSums) AcceptSums(sum);
  for (int i = 0; i < kSums; ++i) args.out[i * kWarpgroup + ThreadIndex()] = sum[i];
  AcceptSums(sum);
}

std::vector<uint16_t> Tiles() {
  std::vector<uint16_t> in(kSteps * kTileBytes / 2);
  for (int step = 0; step < kSteps; ++step) {
    for (int k = 0; k < kWgmmaK; ++k) {
      for (int n = 0; n < kColumns; ++n) {
        const int at = n / 8 * (kRowBytes / 2) + k / 8 * 64 + n % 8 * 8 + k % 8;
        in[step * kTileBytes / 2 + at] = F32ToBf16(static_cast<float>((step + k + n) % 7));
      }
    }
  }
  return in;
}

std::vector<float> RunRing(Fault fault, uint64_t seed) {
  alignas(16) static const std::vector<uint16_t> in = Tiles();
  std::vector<float> out(kSums * kWarpgroup);
  emulated::SeedSchedule(seed);
  Device device;
  Launch(&Ring, Grid{}, 160, kStages * kTileBytes + 2 * kStages * 8, &device,
         Args{in.data(), out.data(), fault});
  return out;
}

std::vector<float> Expected() {
  std::vector<float> out(kSums * kWarpgroup);
  for (int i = 0; i < kSums; ++i) {
    for (int thread = 0; thread < kWarpgroup; ++thread) {
      const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      float sum = 0;
      for (int step = 0; step < kSteps; ++step) {
        for (int k = 0; k < kWgmmaK; ++k) {
          sum += static_cast<float>((step + 1) * ((step + k + column) % 7));
        }
      }
      out[i * kWarpgroup + thread] = sum;
    }
  }
  return out;
}

// In some order of events the fault fails a CHECK, or gives other numbers.
void RunInEveryOrder(Fault fault) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    CHECK(RunRing(fault, seed) == Expected()) << "other numbers";
  }
}

TEST(EmulatedHopperTest, ARingOfBulkCopiesIsMultiplied) { RunInEveryOrder(kNone); }

TEST(EmulatedHopperDeathTest, WhatComesTooEarlyShows) {
  EXPECT_DEATH(RunInEveryOrder(kReleasesTooEarly), "other numbers");
  EXPECT_DEATH(RunInEveryOrder(kDoesNotWait), "other numbers|wait at a barrier|more arrivals");
  EXPECT_DEATH(RunInEveryOrder(kChangesWeights), "other numbers");
  EXPECT_DEATH(RunInEveryOrder(kReadsSums), "other numbers");
  EXPECT_DEATH(RunInEveryOrder(kWrongStride), "other numbers");
}

TEST(EmulatedHopperDeathTest, WhatIsNotOrderedFails) {
  EXPECT_DEATH(RunInEveryOrder(kTakesTooEarly), "was not waited for");
  EXPECT_DEATH(RunInEveryOrder(kWritesSums), "were written before they were taken");
  EXPECT_DEATH(RunInEveryOrder(kForgetsFence), "without a fence");
  EXPECT_DEATH(RunInEveryOrder(kForgetsPublishing), "was not published");
  EXPECT_DEATH(RunInEveryOrder(kLeaves), "was not waited for");
  // The bytes of one half come when the next phase is under way, or never.
  EXPECT_DEATH(RunInEveryOrder(kExpectsTooLittle), "other numbers|wait at a barrier|under way");
}

// Writes of threads reach the tensor cores by a fence only.
TUTTI_LARGE_KERNEL(128) FromThreads(TUTTI_PARAMETER Args args) {
  auto* const tile = reinterpret_cast<uint16_t*>(SharedMemory());
  for (int i = ThreadIndex(); i < kTileBytes / 2; i += kWarpgroup) tile[i] = args.in[i];
  if (args.fault != kForgetsProxyFence) FenceAsyncProxy();
  SyncBlock();
  float sum[kSums] = {};
  const uint32_t a[4] = {One(), One(), One(), One()};
  WgmmaFence();
  Wgmma<true>(sum, a, MatrixDescriptor(SharedAddress(tile), 128, kRowBytes));
  WgmmaCommit();
  WgmmaWait<0>();
  AcceptSums(sum);
  for (int i = 0; i < kSums; ++i) args.out[i * kWarpgroup + ThreadIndex()] = sum[i];
}

TEST(EmulatedHopperTest, ThreadsFenceWhatTheyWrote) {
  const std::vector<uint16_t> in = Tiles();
  Device device;
  for (const Fault fault : {kNone, kForgetsProxyFence}) {
    std::vector<float> out(kSums * kWarpgroup);
    Launch(&FromThreads, Grid{}, kWarpgroup, kTileBytes, &device,
           Args{in.data(), out.data(), fault});
    if (fault == kNone) {
      float expected = 0;
      for (int k = 0; k < kWgmmaK; ++k) expected += static_cast<float>(k % 7);
      EXPECT_EQ(out[0], expected);
    } else {
      EXPECT_TRUE(std::isnan(out[0]));
    }
  }
}

}  // namespace
}  // namespace tutti::kernels::cuda
