// The slices that the CPU backend counts: within operators, so that a thread that watches sees a
// long one go on.
#include "kernels/cpu/slice_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "kernels/cpu/instruction_set.h"
#include "kernels/kernels_testing.h"
#include "kernels/limits.h"
#include "kernels/work_meter.h"

namespace tutti::kernels {
namespace {

class SliceCountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Take(*CreateBackend("cpu", {.num_threads = 3, .numerics_class = "cpu-f32"}));
  }
  void Take(std::unique_ptr<Backend> backend) {
    backend_ = std::move(backend);
    meter_ = backend_->work_meter();
    ASSERT_NE(meter_, nullptr);
  }
  // Slices of a product of a weight of 10 groups of 64 columns.
  uint64_t SlicesOfProduct(int64_t rows) {
    Matrix weight(640, 32, DType::kBF16), in(rows, 32), out(rows, 640);
    const auto packed =
        *backend_->Pack({.parts = {weight.Fill(1).view()}, .leaf_begin = {}, .name = "w"});
    in.Fill(2);
    const uint64_t before = meter_->slices_done();
    backend_->MatMul(in.view(), *packed, out.view());
    return meter_->slices_done() - before;
  }
  std::unique_ptr<Backend> backend_;
  const WorkMeter* meter_ = nullptr;
};

TEST_F(SliceCountTest, AProductIsCountedByBlocksOfRowsAndGroupsOfColumns) {
  EXPECT_EQ(SlicesOfProduct(1), 10u);
  EXPECT_EQ(SlicesOfProduct(kRowBlock), 10u);
  EXPECT_EQ(SlicesOfProduct(kRowBlock + 1), 20u);
  EXPECT_EQ(SlicesOfProduct(5 * kRowBlock), 50u);
}

// AMX's rows share a pass by the bytes of their panel, here of one block of k.
TEST_F(SliceCountTest, AProductInTilesIsCountedByItsOwnBlocksOfRows) {
  if (!cpu::MachineFeatures().amx) GTEST_SKIP() << "this machine has no amx";
  Take(*CreateBackend("cpu", {.num_threads = 3, .instruction_set = "amx"}));
  EXPECT_EQ(SlicesOfProduct(1), 10u);
  EXPECT_EQ(SlicesOfProduct(kAmxRowBlockMost), 10u);
  EXPECT_EQ(SlicesOfProduct(kAmxRowBlockMost + 1), 20u);
  const Work many = meter_->LargestSlice(10 * kAmxRowBlockMost, 4096, 2);
  EXPECT_EQ(many.flops, 2 * 64.0 * 4096 * 3 * kAmxRowBlockMost);
}

TEST_F(SliceCountTest, AWeightThatIsPackedIsCountedByGroups) {
  Matrix weight(640, 32, DType::kBF16);
  const uint64_t before = meter_->slices_done();
  ASSERT_TRUE(
      backend_->Pack({.parts = {weight.Fill(1).view()}, .leaf_begin = {}, .name = "w"}).ok());
  EXPECT_EQ(meter_->slices_done() - before, 10u);
}

TEST_F(SliceCountTest, AnotherThreadSeesItGrow) {
  std::atomic<bool> stop{false};
  std::atomic<bool> seen{false};
  const uint64_t before = meter_->slices_done();
  std::thread watcher([&] {
    uint64_t last = before;
    while (!stop) {
      const uint64_t now = meter_->slices_done();
      EXPECT_GE(now, last);
      last = now;
      if (now > before) seen = true;
    }
  });
  while (!seen) SlicesOfProduct(kRowBlock);
  stop = true;
  watcher.join();
}

TEST_F(SliceCountTest, ALargestSliceGrowsWithRowsUpToABlock) {
  const Work one = meter_->LargestSlice(1, 4096, 2);
  const Work block = meter_->LargestSlice(kRowBlock, 4096, 2);
  const Work many = meter_->LargestSlice(10 * kRowBlock, 4096, 2);
  // Of all the groups that few rows read at once.
  EXPECT_EQ(one.bytes, 64.0 * 4096 * 2 * 3 * kStreamsMax);
  EXPECT_EQ(one.flops, 2 * 64.0 * 4096 * 3 * kStreamsMax);
  EXPECT_EQ(block.bytes, one.bytes);
  EXPECT_EQ(block.flops, 2 * 64.0 * 4096 * 3 * kRowBlock);
  EXPECT_EQ(many.flops, block.flops);
}

}  // namespace
}  // namespace tutti::kernels
