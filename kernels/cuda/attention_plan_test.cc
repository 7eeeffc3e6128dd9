#include "kernels/cuda/attention_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "gtest/gtest.h"

namespace tutti::kernels::cuda {
namespace {

struct Batch {
  std::vector<int32_t> row_begin = {0}, first_position, block_begin, blocks;
  void Add(int32_t rows, int32_t position) {
    row_begin.push_back(row_begin.back() + rows);
    first_position.push_back(position);
    block_begin.push_back(static_cast<int32_t>(blocks.size()));
    for (int32_t i = 0; i <= (position + rows) / 16; ++i) {
      blocks.push_back(static_cast<int32_t>(blocks.size()) * 3 + 1);
    }
  }
  AttentionBatch view() const { return {row_begin, first_position, block_begin, blocks}; }
};

bool IsReal(const AttentionItem& item) { return item.pair_begin < item.pair_end; }

int64_t RealItems(const std::vector<AttentionItem>& items) {
  return std::count_if(items.begin(), items.end(), IsReal);
}

// Every pair of every row sees each of its tiles exactly once, and no record is used twice.
void ExpectComplete(const Batch& batch, int32_t group, const AttentionPlan& plan) {
  std::map<std::pair<int32_t, int32_t>, std::multiset<int32_t>> tiles;  // (row, pair) -> tiles
  std::set<int32_t> records;
  for (const auto* items : {&plan.narrow, &plan.wide}) {
    EXPECT_EQ(static_cast<int64_t>(items->size()), GpuPaddedItems(RealItems(*items)));
    for (const AttentionItem& item : *items) {
      EXPECT_LE(item.pair_end - item.pair_begin,
                items == &plan.narrow ? kPairs : kPairs * kAttentionWarps);
      if (item.record >= 0) {
        EXPECT_TRUE(records.insert(item.record).second);
        EXPECT_EQ(item.tile_end, item.tile_begin + 1);
      }
      for (int32_t pair = item.pair_begin; pair < item.pair_end; ++pair) {
        const int32_t position = item.first_position + pair / group;
        for (int32_t tile = item.tile_begin; tile < item.tile_end; ++tile) {
          if (tile * kAttentionTile <= position) tiles[{item.first_row, pair}].insert(tile);
        }
      }
    }
  }
  EXPECT_EQ(static_cast<int32_t>(records.size()), plan.records);
  const AttentionBatch view = batch.view();
  for (int64_t s = 0; s < view.sequences(); ++s) {
    const int32_t pairs = (view.row_begin[s + 1] - view.row_begin[s]) * group;
    for (int32_t pair = 0; pair < pairs; ++pair) {
      const auto& seen = tiles[{view.row_begin[s], pair}];
      const int32_t last = (view.first_position[s] + pair / group) / kAttentionTile;
      EXPECT_EQ(static_cast<int32_t>(seen.size()), last + 1) << "sequence " << s;
      for (int32_t tile = 0; tile <= last; ++tile) EXPECT_EQ(seen.count(tile), 1u);
    }
  }
}

TEST(AttentionPlanTest, EveryPairSeesItsTilesOnce) {
  Random random(7);
  for (int round = 0; round < 60; ++round) {
    Batch batch;
    const auto sequences = static_cast<int>(random.Between(0, 5));
    for (int s = 0; s < sequences; ++s) {
      batch.Add(static_cast<int32_t>(random.Between(0, round % 2 == 0 ? 3 : 200)),
                static_cast<int32_t>(random.Between(0, 900)));
    }
    const auto group = static_cast<int32_t>(random.Between(1, 9));
    for (int64_t records_max : {0, 9, 100000}) {
      for (int64_t side_by_side : {1, 3, 400}) {
        const AttentionPlan plan =
            PlanAttention(batch.view(), group, records_max, kPairs * kAttentionWarps, side_by_side);
        EXPECT_LE(plan.records, records_max);
        ExpectComplete(batch, group, plan);
      }
    }
  }
}

TEST(AttentionPlanTest, FewRowsWithALongPastAreSpreadOverTheDevice) {
  Batch batch;
  batch.Add(1, 1023);
  batch.Add(1, 100);    // one tile: nothing to fold
  batch.Add(500, 700);  // many rows: walked
  const AttentionPlan plan = PlanAttention(batch.view(), 4, 1000);
  EXPECT_EQ(plan.records, 8);
  EXPECT_EQ(plan.folds.size(), 2u) << "one of them empty";
  EXPECT_EQ(RealItems(plan.narrow), 9);
  EXPECT_EQ(RealItems(plan.wide), 500 * 4 / 64 + 1);
  EXPECT_GE(plan.wide.front().tile_end, plan.wide[RealItems(plan.wide) - 1].tile_end);
}

// As many sequences as the device works at side by side are walked, without records to fold; only
// those much longer than the others are spread.
TEST(AttentionPlanTest, SequencesThatFillTheDeviceAreWalked) {
  Batch batch;
  for (int32_t s = 0; s < 64; ++s) batch.Add(1, 260);
  const auto plan_of = [&batch] {
    return PlanAttention(batch.view(), 4, 100000, kPairs * kAttentionWarps, 49);
  };
  AttentionPlan plan = plan_of();
  EXPECT_EQ(RealItems(plan.narrow), 64);
  EXPECT_EQ(plan.records, 0);
  EXPECT_TRUE(plan.folds.empty());
  ExpectComplete(batch, 4, plan);

  batch.Add(1, 100 * kAttentionTile - 1);
  batch.Add(8, 260);  // two shares of pairs
  plan = plan_of();
  EXPECT_EQ(plan.records, 100 + 2 * 3);
  EXPECT_EQ(RealItems(plan.narrow), 64 + plan.records);
  EXPECT_EQ(plan.narrow.front().tile_end, 3) << "the longest first";
  ExpectComplete(batch, 4, plan);

  batch = Batch();
  for (int32_t s = 0; s < 48; ++s) batch.Add(1, 260);
  EXPECT_EQ(plan_of().records, 48 * 3);
}

// Only a crowd of which nobody walks: a walk brings its next keys while it weighs values.
TEST(AttentionPlanTest, ManyTimesMoreTilesThanRunSideBySideAreACrowd) {
  constexpr int64_t kSideBySide = 10;
  const auto is_crowded = [](int32_t sequences, int32_t position, int64_t records_max = 100000) {
    Batch batch;
    for (int32_t s = 0; s < sequences; ++s) batch.Add(1, position);
    return PlanAttention(batch.view(), 4, records_max, kPairs * kAttentionWarps, kSideBySide)
        .crowded;
  };
  EXPECT_TRUE(is_crowded(4, 10 * kAttentionTile - 1));
  EXPECT_FALSE(is_crowded(3, 5 * kAttentionTile - 1)) << "few";
  EXPECT_FALSE(is_crowded(40, 2 * kAttentionTile - 1)) << "walked, as they fill the device";
  EXPECT_FALSE(is_crowded(4, 10 * kAttentionTile - 1, 0)) << "walked, without records";
  EXPECT_TRUE(is_crowded(40, 7)) << "of one tile each";
  EXPECT_FALSE(is_crowded(0, 7));
}

// Decode steps of one batch differ in how far its sequences are, and seldom in how many items and
// folds they have.
TEST(AttentionPlanTest, StepsOfOneBatchHaveListsOfFewLengths) {
  std::set<std::vector<size_t>> lengths;
  for (int32_t step = 0; step < 2000; ++step) {
    Batch batch;
    for (int32_t s = 0; s < 8; ++s) batch.Add(1, 37 * s + step);
    const AttentionPlan plan = PlanAttention(batch.view(), 4, 100000);
    lengths.insert({plan.narrow.size(), plan.wide.size(), plan.folds.size()});
  }
  // 8 to 136 items, with and without folds.
  EXPECT_LE(lengths.size(), 10u);
}

TEST(AttentionPlanTest, ListsGrowByAQuarterAtMost) {
  EXPECT_EQ(GpuPaddedItems(0), 0);
  EXPECT_EQ(GpuPaddedItems(1), 16);
  EXPECT_EQ(GpuPaddedItems(128), 128);
  EXPECT_EQ(GpuPaddedItems(129), 160);
  for (int64_t items = 1; items < 100000; items += 1 + items / 50) {
    EXPECT_GE(GpuPaddedItems(items), items);
    EXPECT_LE(GpuPaddedItems(items), std::max(items + 15, items + items / 4)) << items;
    EXPECT_LE(GpuPaddedItems(items), GpuPaddedItems(items + 1));
  }
}

TEST(AttentionPlanTest, RowsWriteWhereTheirBlocksAre) {
  Batch batch;
  batch.Add(2, 15);
  batch.Add(1, 0);
  const RowTable rows = PlanRows(batch.view(), 16);
  EXPECT_EQ(rows.position, (std::vector<int32_t>{15, 16, 0}));
  EXPECT_EQ(rows.block_begin, (std::vector<int32_t>{0, 0, 2}));
  EXPECT_EQ(rows.slot, (std::vector<int32_t>{1 * 16 + 15, 4 * 16, 7 * 16}));
}

}  // namespace
}  // namespace tutti::kernels::cuda
