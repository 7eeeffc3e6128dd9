// The memory reserved at load is enough for every step within the bounds.
#include <algorithm>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/leaf_map.h"
#include "kernels/cuda/product.h"
#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {
namespace {

StepBounds BoundsOf(int64_t rows, int64_t sequences, int64_t positions, int64_t group,
                    int64_t kv_heads, int64_t head_dim) {
  return {.rows = rows,
          .sequences = sequences,
          .positions = positions,
          .query_heads = group * kv_heads,
          .kv = {.block_size = 16, .kv_heads = kv_heads, .head_dim = head_dim}};
}

struct Step {
  std::vector<int32_t> row_begin = {0}, first_position, block_begin, blocks;
  AttentionBatch view() const { return {row_begin, first_position, block_begin, blocks}; }
};

// Up to `bounds.sequences` sequences that end anywhere, with `rows` rows each at most.
Step RandomStep(const StepBounds& bounds, int64_t rows, Random* random) {
  Step step;
  for (int64_t s = 0; s < bounds.sequences; ++s) {
    const int64_t left = bounds.rows - step.row_begin.back();
    const int64_t count = random->Between(0, std::min({left, rows, bounds.positions}));
    step.row_begin.push_back(step.row_begin.back() + static_cast<int32_t>(count));
    step.first_position.push_back(
        static_cast<int32_t>(random->Between(0, bounds.positions - count)));
    step.block_begin.push_back(static_cast<int32_t>(step.blocks.size()));
    const int64_t end = step.first_position.back() + count;
    step.blocks.resize(step.blocks.size() + static_cast<size_t>((end + 15) / 16));
  }
  return step;
}

template <class T>
int64_t BytesOf(const std::vector<T>& array) {
  return static_cast<int64_t>(array.size() * sizeof(T));
}

void ExpectRoomFor(const StepBounds& bounds, const Step& step) {
  const auto group = static_cast<int32_t>(bounds.query_heads / bounds.kv.kv_heads);
  const int64_t values =
      bounds.kv.kv_heads * kPairs * GpuPaddedHeadDim(bounds.kv.head_dim, false);  // of a record
  const AttentionPlan plan = PlanAttention(step.view(), group, kSpreadBytesMax / (values * 4));
  const GpuWorkBytes work = GpuWorkBytesOf(bounds, {});
  EXPECT_LE(plan.records * values * 4, work.record_values);
  EXPECT_LE(plan.records * bounds.kv.kv_heads * kPairs * 2 * 4, work.record_sums);
  const GpuArrayBytes arrays = GpuArrayBytesOf(bounds);
  EXPECT_LE(BytesOf(plan.narrow), arrays.items);
  EXPECT_LE(BytesOf(plan.wide), arrays.items);
  EXPECT_LE(BytesOf(plan.folds), arrays.folds);
  EXPECT_LE(BytesOf(step.blocks), arrays.blocks);
}

TEST(StepMemoryTest, IsEnoughForEveryStep) {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    const StepBounds bounds =
        BoundsOf(random.Between(1, 300), random.Between(1, 70), random.Between(1, 3000),
                 random.Between(1, 9), random.Between(1, 4), 16 * random.Between(1, 16));
    // Few rows each, which spreads them, or many.
    for (const int64_t rows : {int64_t{1}, int64_t{7}, bounds.rows}) {
      ExpectRoomFor(bounds, RandomStep(bounds, rows, &random));
    }
  }
}

TEST(StepMemoryTest, RecordsNeverTakeMoreThanTheirShare) {
  const GpuWorkBytes work = GpuWorkBytesOf(BoundsOf(4096, 256, 131072, 4, 8, 128), {});
  EXPECT_LE(work.record_values, kSpreadBytesMax);
  EXPECT_GT(work.record_values, kSpreadBytesMax * 9 / 10);
  EXPECT_EQ(work.record_sums, work.record_values / 128 * 2);
}

TEST(StepMemoryTest, ProductsNeedWhatTheWidestWeightDoes) {
  GpuProductBounds products;
  const LeafMap plain = *MakeLeafMap({0, 100}), leaves = *MakeLeafMap({0, 33, 64, 64, 96});
  const auto cover = [&](const LeafMap& map, int64_t out, DType dtype) {
    products.Cover(int64_t{Chunks(map)} * kChunkK, map.leaves, out, dtype);
  };
  cover(plain, 500, DType::kBF16);
  cover(leaves, 40, DType::kF16);
  cover(*MakeLeafMap({0, 9999}), 9999, DType::kF32);  // needs neither
  for (const int64_t rows : {1, 16, 17, 100, 127, 128, 300}) {
    int64_t most = 0;
    const GpuWorkBytes work = GpuWorkBytesOf({.rows = rows}, products);
    // Whole tiles of 8; many rows come by 64.
    const int64_t padded = rows > 127 ? (rows + 63) / 64 * 64 : (rows + 7) / 8 * 8;
    EXPECT_EQ(work.packed_rows, padded * Chunks(plain) * kChunkK * 2);
    for (int64_t fewer = 1; fewer <= rows; ++fewer) {
      most = std::max(most, LeafSumCount(leaves, fewer, 40) * 4);
    }
    EXPECT_EQ(most, work.leaf_sums) << rows;
  }
}

TEST(StepMemoryTest, NothingIsTakenForWhatAModelLacks) {
  const GpuWorkBytes work = GpuWorkBytesOf({.rows = 8, .kv = {.dtype = DType::kF32}}, {});
  EXPECT_EQ(work.total(), 0);
  EXPECT_EQ(GpuArrayBytesOf({.rows = 8}).vocabulary, 0);
}

TEST(StepMemoryTest, AGpuIsAsLargeAsWhatIsUsableAsks) {
  EXPECT_EQ(UsableGpuBytes(kGpuContextBytes / 2), 0);
  for (const int64_t usable : {int64_t{1}, int64_t{1000}, int64_t{80} << 30, int64_t{1} << 60}) {
    const int64_t bytes = GpuBytesForUsable(usable);
    EXPECT_GE(UsableGpuBytes(bytes), usable);
    EXPECT_LE(UsableGpuBytes(bytes), usable + usable / 1'000'000 + 1);
  }
}

}  // namespace
}  // namespace tutti::kernels::cuda
