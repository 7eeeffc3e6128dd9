// The functions that stand in for the mathematics library, against it.
#include <atomic>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/cpu_sampling.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/rotary.h"
#include "kernels/cpu/thread_pool.h"

namespace tutti::kernels::cpu {
namespace {

TEST(MathTest, SinCos) {
  for (double angle = 0; angle < 1e6; angle = angle * 1.0007 + 0.0137) {
    const SinCos value = SinCosOf(angle);
    ASSERT_NEAR(value.sine, std::sin(angle), 1e-11) << angle;
    ASSERT_NEAR(value.cosine, std::cos(angle), 1e-11) << angle;
    ASSERT_NEAR(SinCosOf(-angle).sine, -value.sine, 1e-15) << angle;
  }
}

TEST(MathTest, ExpByTheSumOfOne) {
  const KernelTable& kernels = KernelsOf(InstructionSet::kAvx2);
  for (float x = 0; x > -87; x -= 0.0137f) {
    const double e = std::exp(static_cast<double>(x));
    ASSERT_NEAR(kernels.sum_exp(&x, 1, 0, 1), e, 1.5e-7 * e) << x;
  }
  const float ends[] = {-87.4f, -1000, -INFINITY};
  for (float x : ends) EXPECT_EQ(kernels.sum_exp(&x, 1, 0, 1), 0) << x;
}

TEST(RotaryTableTest, FollowsItsArguments) {
  RotaryTable table;
  const std::vector<float> frequency = {1, 0.5f};
  table.Prepare(std::vector<int32_t>{3, 4}, frequency);
  EXPECT_FLOAT_EQ(table.cosine(1)[1], std::cos(2.0f));
  table.Prepare(std::vector<int32_t>{3, 5}, frequency);
  EXPECT_FLOAT_EQ(table.sine(1)[0], std::sin(5.0f));
  table.Prepare(std::vector<int32_t>{3, 5}, std::vector<float>{2});
  EXPECT_FLOAT_EQ(table.sine(1)[0], std::sin(10.0f));
  table.Prepare({}, frequency);
}

TEST(ThreadPoolTest, EveryThreadRunsOnceAndIsWaitedFor) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<int64_t> counts(static_cast<size_t>(threads) * 16);
    for (int round = 0; round < 2000; ++round) {
      pool.Run([&](int thread) { ++counts[static_cast<size_t>(thread) * 16]; });
      ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), (round + 1) * threads);
    }
  }
}

TEST(ThreadPoolTest, SplitCoversTheRangeOnce) {
  ThreadPool pool(3);
  for (int64_t count : {0, 1, 2, 3, 4, 100}) {
    for (bool serial : {false, true}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      pool.Split(count, serial, [&](int thread, int64_t begin, int64_t end) {
        EXPECT_LT(thread, serial ? 1 : 3);
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& n : seen) EXPECT_EQ(n, 1);
    }
  }
}

TEST(AttentionPlanTest, CoversEveryEntryOnceAndBalances) {
  const std::vector<int32_t> row_begin = {0, 1, 1, 41, 42}, first = {4000, 9, 0, 5};
  const std::vector<int32_t> block_begin = {0, 0, 0, 0}, blocks(200);
  const AttentionBatch batch = {row_begin, first, block_begin, blocks};
  for (int threads : {1, 2, 3, 16}) {
    AttentionPlan plan;
    PlanAttention(batch, 8, 3, kAttentionEntries, threads, &plan);
    ASSERT_EQ(plan.thread_begin.size(), static_cast<size_t>(threads) + 1);
    EXPECT_TRUE(std::is_sorted(plan.thread_begin.begin(), plan.thread_begin.end()));
    EXPECT_EQ(plan.thread_begin.front(), 0);
    EXPECT_EQ(plan.thread_begin.back(), static_cast<int64_t>(plan.items.size()));
    int64_t entries = 0;
    for (const AttentionItem& item : plan.items) entries += item.entry_end - item.entry_begin;
    EXPECT_EQ(entries, 42 * 3 * 8);
    if (threads == 2) {
      // The long sequence's eight heads cost about two thirds: the other thread takes more than the
      // rest.
      EXPECT_GT(plan.thread_begin[1], 4);
      EXPECT_LT(plan.thread_begin[1], 8);
    }
  }
}

}  // namespace
}  // namespace tutti::kernels::cpu
