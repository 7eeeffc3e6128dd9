#include "coordinator/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace tutti {
namespace {

std::vector<BlockId> Take(BlockPool* pool, int32_t count) {
  std::vector<BlockId> blocks;
  pool->Take(count, &blocks);
  return blocks;
}

TEST(BlockPoolTest, HandsOutEveryBlockOnce) {
  BlockPool pool(5);
  EXPECT_EQ(pool.total(), 5);
  EXPECT_EQ(pool.free(), 5);
  const std::vector<BlockId> blocks = Take(&pool, 5);
  EXPECT_EQ(pool.free(), 0);
  EXPECT_EQ(std::set<BlockId>(blocks.begin(), blocks.end()).size(), 5u);
  for (const BlockId block : blocks) EXPECT_LT(block, BlockId(5));
  EXPECT_TRUE(Take(&pool, 0).empty());
}

TEST(BlockPoolTest, FreedBlocksComeBackInTheirOrder) {
  BlockPool pool(4);
  const std::vector<BlockId> first = Take(&pool, 3);
  pool.Free(first);
  EXPECT_EQ(pool.free(), 4);
  EXPECT_EQ(Take(&pool, 3), first);
}

TEST(BlockPoolTest, AppendsToTheTable) {
  BlockPool pool(3);
  std::vector<BlockId> table = Take(&pool, 1);
  pool.Take(2, &table);
  EXPECT_EQ(table, (std::vector<BlockId>{BlockId(0), BlockId(1), BlockId(2)}));
}

TEST(BlockPoolDeathTest, OwnMistakesEndTheProcess) {
  BlockPool pool(2);
  const std::vector<BlockId> blocks = Take(&pool, 1);
  EXPECT_DEATH(Take(&pool, 2), "2 blocks wanted, 1 free");
  EXPECT_DEATH(pool.Free({BlockId(1)}), "block 1 is freed twice");
  pool.Free(blocks);
  EXPECT_DEATH(pool.Free(blocks), "block 0 is freed twice");
}

TEST(BlockPoolTest, NoBlockHasTwoOwners) {
  Random random(1);
  BlockPool pool(50);
  std::vector<std::vector<BlockId>> owners(8);
  for (int i = 0; i < 5000; ++i) {
    std::vector<BlockId>& owner = owners[random.Between(0, 7)];
    if (random.Chance(0.3)) {
      pool.Free(owner);
      owner.clear();
    } else {
      pool.Take(static_cast<int32_t>(random.Between(0, std::min(pool.free(), 4))), &owner);
    }
    std::set<BlockId> seen;
    size_t held = 0;
    for (const auto& blocks : owners) {
      held += blocks.size();
      seen.insert(blocks.begin(), blocks.end());
    }
    ASSERT_EQ(seen.size(), held);
    ASSERT_EQ(static_cast<size_t>(pool.free()) + held, 50u);
  }
}

}  // namespace
}  // namespace tutti
