// The emulated GPU sees the faults that it is for: kernels that miss a barrier or read a copy too
// early, each beside the same kernel without the fault.
#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "kernels/cuda/emulated/schedule.h"
#include "kernels/cuda/emulated/tensor_core.h"
#include "kernels/cuda/gpu_hopper.h"
#include "kernels/cuda/runtime.h"

namespace tutti::kernels::cuda {
namespace {

constexpr int kThreads = 4 * kWarp;
constexpr int kSeeds = 8;

class Device : public Launcher {
 public:
  void Start(const KernelLaunch& launch) override {
    emulated::RunGrid(
        launch.grid, launch.threads, launch.shared_bytes,
        [&] { launch.call(launch.kernel, launch.argument); }, launch.early != 0);
  }
};

struct Args {
  const int32_t* in = nullptr;
  int32_t* out = nullptr;  // [kThreads]
  int64_t careful = true;  // false: the planted fault
};
using Kernel = void (*)(Args);

int32_t* Shared() { return reinterpret_cast<int32_t*>(SharedMemory()); }

// Runs `kernel` in several orders; whether all gave the same.
bool SameInEveryOrder(Kernel kernel, bool careful, int threads = kThreads) {
  alignas(16) int32_t in[kThreads * 8];
  std::iota(std::begin(in), std::end(in), 1);
  Device device;
  std::vector<int32_t> first;
  for (int seed = 0; seed < kSeeds; ++seed) {
    emulated::SeedSchedule(static_cast<uint64_t>(seed));
    std::vector<int32_t> out(kThreads);
    Launch(kernel, Grid{}, threads, 4096, &device, Args{in, out.data(), careful});
    if (seed == 0) first = out;
    if (out != first) return false;
  }
  return true;
}

// A value that one thread writes, a thread of another warp reads.
TUTTI_KERNEL void ReadsAnotherWarp(TUTTI_PARAMETER Args args) {
  const int t = ThreadIndex();
  Shared()[t] = t;
  if (args.careful) {
    SyncBlock();
  } else {
    SyncWarp();
  }
  args.out[t] = Shared()[(t + kWarp) % kThreads];
}

// A value that one lane writes, another lane of its warp reads.
TUTTI_KERNEL void ReadsAnotherLane(TUTTI_PARAMETER Args args) {
  Shared()[Lane()] = Lane();
  if (args.careful) SyncWarp();
  args.out[Lane()] = Shared()[(Lane() + 1) % kWarp];
}

// A buffer is written again while a slower warp may still read it.
TUTTI_KERNEL void WritesWhatIsRead(TUTTI_PARAMETER Args args) {
  const int t = ThreadIndex();
  int32_t sum = 0;
  for (int turn = 0; turn < 4; ++turn) {
    Shared()[t] = 100 * turn + t;
    SyncBlock();
    sum += Shared()[(t + kWarp) % kThreads];
    if (args.careful) SyncBlock();
  }
  args.out[t] = sum;
}

// A ring of two asynchronous copies: the next may be ordered only when all have read the last.
TUTTI_KERNEL void CopiesOverWhatIsRead(TUTTI_PARAMETER Args args) {
  const int t = ThreadIndex();
  const auto fetch = [&](int turn) {
    if (t < kThreads / 4) CopyAsync16(Shared() + t * 4, args.in + turn * kThreads + t * 4, true);
    CopyCommit();
  };
  int32_t sum = 0;
  fetch(0);
  for (int turn = 0; turn < 4; ++turn) {
    CopyWait<0>();
    SyncBlock();
    sum += Shared()[(t + kWarp) % kThreads];
    if (args.careful) SyncBlock();
    if (turn < 3) fetch(turn + 1);
  }
  args.out[t] = sum;
}

// A copy of another thread has arrived for all only after the barrier that follows its wait.
TUTTI_KERNEL void ReadsACopyTooEarly(TUTTI_PARAMETER Args args) {
  const int t = ThreadIndex();
  CopyAsync16(Shared() + t * 4, args.in + t * 4, true);
  CopyCommit();
  if (!args.careful) SyncBlock();
  CopyWait<0>();
  if (args.careful) SyncBlock();
  args.out[t] = Shared()[(t * 4 + 2 * kWarp) % (4 * kThreads)];
}

TEST(EmulatedGpuTest, FindsMissingBarriers) {
  const std::pair<const char*, Kernel> kernels[] = {
      {"reads another warp", &ReadsAnotherWarp},
      {"writes what is read", &WritesWhatIsRead},
      {"copies over what is read", &CopiesOverWhatIsRead},
      {"reads a copy too early", &ReadsACopyTooEarly}};
  for (const auto& [name, kernel] : kernels) {
    EXPECT_TRUE(SameInEveryOrder(kernel, true)) << name;
    EXPECT_FALSE(SameInEveryOrder(kernel, false)) << name;
  }
  EXPECT_TRUE(SameInEveryOrder(&ReadsAnotherLane, true, kWarp));
  EXPECT_FALSE(SameInEveryOrder(&ReadsAnotherLane, false, kWarp));
}

// One copy, read by the thread that ordered it before it was waited for.
TUTTI_KERNEL void ReadsItsCopy(TUTTI_PARAMETER Args args) {
  Shared()[4 * Lane()] = 7;
  CopyAsync16(Shared() + 4 * Lane(), args.in, true);
  CopyCommit();
  if (args.careful) CopyWait<0>();
  args.out[Lane()] = Shared()[4 * Lane()];
  CopyWait<0>();
}

TEST(EmulatedGpuTest, ACopyUnderWayLeavesNothingToRead) {
  Device device;
  alignas(16) const int32_t in[4] = {42};
  for (const bool careful : {true, false}) {
    std::vector<int32_t> out(kThreads);
    Launch(&ReadsItsCopy, Grid{}, kWarp, 4096, &device, Args{in, out.data(), careful});
    EXPECT_EQ(out[0], careful ? 42 : -1);
  }
}

// Kernels that may begin before others have ended, each right and with the faults named.
enum EarlyFault : int64_t {
  kNone,
  kReads,
  kWrites,
  kCopies,
  kNeverWaits,
  kWaitsInSomeThreads,
  kWritesConstant
};
struct EarlyArgs {
  const int32_t* constant = nullptr;  // [kThreads], as `in` and `out`
  const int32_t* in = nullptr;
  int32_t* out = nullptr;
  int64_t fault = kNone;
};

TUTTI_KERNEL void BeginsEarly(TUTTI_PARAMETER EarlyArgs args) {
  const int t = ThreadIndex();
  LetNextBegin();
  PrefetchLine(args.in + t);
  CopyAsync16(Shared() + 4 * t, (args.fault == kCopies ? args.in : args.constant) + t / 4 * 4,
              true);
  CopyCommit();
  int32_t sum = args.constant[t];
  SyncBlock();
  if (args.fault == kReads) sum += args.in[t];
  if (args.fault == kWrites) args.out[t] = 0;
  if (args.fault == kWaitsInSomeThreads && t >= kWarp) return;
  if (args.fault != kNeverWaits) WaitForEarlier();
  if (args.fault != kReads) sum += args.in[t];
  CopyWait<0>();
  args.out[t] = sum + Shared()[4 * t];
  if (args.fault == kWritesConstant) const_cast<int32_t*>(args.constant)[t] = 1;
}

// One block of several copies in bulk, before it has waited.
TUTTI_KERNEL void CopiesInBulk(TUTTI_PARAMETER EarlyArgs args) {
  auto* const barrier = reinterpret_cast<ArrivalBarrier*>(Shared() + kThreads);
  if (ThreadIndex() == 0) {
    InitBarrier(barrier, 1);
    PublishBarriers();
  }
  const bool waits = args.fault == kNone || BlockX() > 0;
  if (waits) WaitForEarlier();
  if (ThreadIndex() == 0) {
    ArriveExpecting(barrier, kThreads * 4);
    CopyBulk(Shared(), args.in, kThreads * 4, barrier);
  }
  if (!waits) WaitForEarlier();
  SyncBlock();
  AwaitPhase(barrier, 0);
  args.out[ThreadIndex()] = Shared()[ThreadIndex()];
}

class EarlyKernelTest : public ::testing::Test {
 protected:
  ~EarlyKernelTest() override {
    for (int32_t* data : {constant_, in_, out_}) runtime_->Free(data);
  }
  std::vector<int32_t> Run(EarlyFault fault, void (*kernel)(EarlyArgs) = &BeginsEarly) {
    std::vector<int32_t> values(kThreads);
    std::iota(values.begin(), values.end(), 1);
    for (int32_t* data : {constant_, in_}) {
      runtime_->Upload(data, kBytes, values.data(), kBytes, kBytes, 1);
    }
    LaunchEarly(kernel, Grid{3}, kThreads, 4 * kBytes, runtime_.get(),
                EarlyArgs{constant_, in_, out_, fault});
    runtime_->Download(values.data(), kBytes, out_, kBytes, kBytes, 1);
    return values;
  }

  static constexpr int64_t kBytes = kThreads * 4;
  const std::unique_ptr<Runtime> runtime_ = MakeEmulatedRuntime();
  int32_t* const constant_ = static_cast<int32_t*>(*runtime_->AllocateConstant(kBytes));
  int32_t* const in_ = static_cast<int32_t*>(*runtime_->Allocate(kBytes));
  int32_t* const out_ = static_cast<int32_t*>(*runtime_->Allocate(kBytes));
};

TEST_F(EarlyKernelTest, MayReadWhatIsConstantBeforeItWaits) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    emulated::SeedSchedule(static_cast<uint64_t>(seed));
    const std::vector<int32_t> out = Run(kNone);
    for (int t = 0; t < kThreads; ++t) EXPECT_EQ(out[t], 2 * (t + 1) + t / 4 * 4 + 1);
  }
}

TEST_F(EarlyKernelTest, MayCopyInBulkWhenItHasWaited) {
  std::vector<int32_t> in(kThreads);
  std::iota(in.begin(), in.end(), 1);
  EXPECT_EQ(Run(kNone, &CopiesInBulk), in);
}

using EarlyKernelDeathTest = EarlyKernelTest;

TEST_F(EarlyKernelDeathTest, FindsWhatIsTouchedTooSoon) {
  for (const EarlyFault fault : {kReads, kWrites}) {
    EXPECT_DEATH(Run(fault), "touched memory that others write before WaitForEarlier");
  }
  EXPECT_DEATH(Run(kCopies), "copies what others write before WaitForEarlier");
  // Also in a block that is not the first.
  for (int seed = 0; seed < kSeeds; ++seed) {
    emulated::SeedSchedule(static_cast<uint64_t>(seed));
    EXPECT_DEATH(Run(kCopies, &CopiesInBulk), "copies what others write before WaitForEarlier");
  }
  EXPECT_DEATH(Run(kWritesConstant), "");
}

TEST_F(EarlyKernelDeathTest, FindsThreadsThatNeverWait) {
  for (const EarlyFault fault : {kNeverWaits, kWaitsInSomeThreads}) {
    EXPECT_DEATH(Run(fault), "WaitForEarlier");
  }
}

TUTTI_KERNEL void CountsBlocks(TUTTI_PARAMETER Args args) {
  if (ThreadIndex() == 0) ++args.out[BlockY() * 5 + BlockX()];
}

TEST(EmulatedGpuTest, EveryBlockRunsOnce) {
  Device device;
  for (int seed = 0; seed < kSeeds; ++seed) {
    emulated::SeedSchedule(static_cast<uint64_t>(seed));
    std::vector<int32_t> out(35);
    Launch(&CountsBlocks, Grid{5, 7}, kWarp, 0, &device, Args{nullptr, out.data()});
    EXPECT_THAT(out, ::testing::Each(1));
  }
}

TEST(EmulatedTensorCoreTest, CutsWhatIsFarBelowTheLargestTerm) {
  float left[16] = {}, right[16] = {};
  left[3] = right[3] = 1;
  EXPECT_EQ(emulated::TruncatingSum(2, left, right), 3);
  // Half a unit in the last place of 1, sixteen times: each is cut before they can add up.
  for (float& x : left) x = 0x1p-24f;
  for (float& x : right) x = 1;
  EXPECT_EQ(emulated::TruncatingSum(1, left, right), 1);
  EXPECT_EQ(emulated::TruncatingSum(0, left, right), 0x1p-20f);
  // Towards zero on both sides.
  right[0] = -0x1.8p24f, left[0] = 0x1p-24f;
  EXPECT_EQ(emulated::TruncatingSum(0, left, right), -1.5f);
  left[1] = 0x1p-149f, right[1] = 1;
  left[0] = 0;
  EXPECT_GT(emulated::TruncatingSum(0, left, right), 0);
}

TEST(EmulatedTensorCoreTest, KeepsWhatIsNotFinite) {
  float left[16] = {}, right[16] = {};
  left[9] = INFINITY;
  EXPECT_TRUE(std::isnan(emulated::TruncatingSum(1, left, right)));
  right[9] = -1;
  EXPECT_EQ(emulated::TruncatingSum(1, left, right), -INFINITY);
  left[9] = right[9] = 0x1p100f;
  EXPECT_EQ(emulated::TruncatingSum(1, left, right), INFINITY);
}

}  // namespace
}  // namespace tutti::kernels::cuda
