#include "coordinator/kv/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>

#include "base/random.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Blocks = std::vector<BlockId>;

Blocks Allocate(BlockPool* pool, int32_t count, Blocks* evicted = nullptr) {
  Blocks blocks;
  Blocks forgotten;
  pool->Allocate(count, &blocks, evicted != nullptr ? evicted : &forgotten);
  return blocks;
}

Blocks AllocatePublished(BlockPool* pool, int32_t count) {
  const Blocks blocks = Allocate(pool, count);
  for (const BlockId block : blocks) pool->MarkPublished(block);
  return blocks;
}

TEST(BlockPoolTest, HandsOutEveryBlockOnce) {
  BlockPool pool(5);
  EXPECT_EQ(pool.total(), 5);
  EXPECT_EQ(pool.free(), 5);
  const Blocks blocks = Allocate(&pool, 5);
  EXPECT_EQ(pool.free(), 0);
  EXPECT_EQ(std::set<BlockId>(blocks.begin(), blocks.end()).size(), 5u);
  for (const BlockId block : blocks) EXPECT_LT(block, BlockId(5));
  EXPECT_TRUE(Allocate(&pool, 0).empty());
}

TEST(BlockPoolTest, FreedBlocksComeBackInTheirOrder) {
  BlockPool pool(4);
  const Blocks first = Allocate(&pool, 3);
  pool.Release(first);
  EXPECT_EQ(pool.free(), 4);
  EXPECT_EQ(Allocate(&pool, 3), first);
}

TEST(BlockPoolTest, AppendsToTheTable) {
  BlockPool pool(3);
  Blocks table = Allocate(&pool, 1);
  Blocks evicted;
  pool.Allocate(2, &table, &evicted);
  EXPECT_EQ(table, (Blocks{BlockId(0), BlockId(1), BlockId(2)}));
}

TEST(BlockPoolTest, PublishedBlocksAreKept) {
  BlockPool pool(4);
  const Blocks chain = AllocatePublished(&pool, 2);
  pool.Release(chain);
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.available(), 4);
  pool.Share(chain[0]);
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_EQ(pool.in_use(), 1);
  pool.Share(chain[0]);
  EXPECT_EQ(pool.holders(chain[0]), 2);
  pool.Release({&chain[0], 1});
  EXPECT_EQ(pool.in_use(), 1) << "it has another holder";
  pool.CheckEveryBlock();
}

TEST(BlockPoolTest, FreeBlocksGoFirstThenTailsBeforeHeads) {
  BlockPool pool(5);
  const Blocks first = AllocatePublished(&pool, 2);
  const Blocks second = AllocatePublished(&pool, 2);
  pool.Release(second);
  pool.Release(first);
  Blocks evicted;
  EXPECT_THAT(Allocate(&pool, 1, &evicted), ElementsAre(BlockId(4)));
  EXPECT_THAT(evicted, IsEmpty());
  EXPECT_THAT(Allocate(&pool, 3, &evicted), ElementsAre(second[1], second[0], first[1]));
  EXPECT_THAT(evicted, ElementsAre(second[1], second[0], first[1]));
  EXPECT_EQ(pool.cached(), 1);
  pool.CheckEveryBlock();
}

TEST(BlockPoolTest, AHitMakesAHeadYoung) {
  BlockPool pool(4);
  const Blocks first = AllocatePublished(&pool, 2);
  const Blocks second = AllocatePublished(&pool, 2);
  pool.Release(first);
  pool.Release(second);
  pool.Share(first[0]);
  pool.Release({&first[0], 1});
  Blocks evicted;
  Allocate(&pool, 4, &evicted);
  EXPECT_THAT(evicted, ElementsAre(first[1], second[1], second[0], first[0]));
}

TEST(BlockPoolTest, AnEvictedBlockIsLikeNew) {
  BlockPool pool(1);
  pool.Release(AllocatePublished(&pool, 1));
  Blocks evicted;
  const Blocks again = Allocate(&pool, 1, &evicted);
  EXPECT_EQ(evicted, again);
  pool.Release(again);
  EXPECT_EQ(pool.free(), 1) << "its content of now is not published";
}

TEST(BlockPoolDeathTest, OwnMistakesEndTheProcess) {
  BlockPool pool(2);
  const Blocks blocks = Allocate(&pool, 1);
  const Blocks other = {BlockId(1)};
  EXPECT_DEATH(Allocate(&pool, 2), "2 blocks wanted, 1 available");
  EXPECT_DEATH(pool.Release(other), "block 1 is freed twice");
  EXPECT_DEATH(pool.Share(BlockId(1)), "block 1 is free");
  EXPECT_DEATH(pool.MarkPublished(BlockId(1)), "published without a holder");
  pool.Release(blocks);
  EXPECT_DEATH(pool.Release(blocks), "block 0 is freed twice");
}

// A test against a model that keeps every list as it is told to.
TEST(BlockPoolTest, DoesWhatAPlainPoolDoes) {
  Random random(1);
  constexpr int32_t kBlocks = 40;
  BlockPool pool(kBlocks);
  std::vector<Blocks> owners(6);
  std::list<BlockId> cached;  // oldest first
  std::set<BlockId> published;
  std::map<BlockId, int> holders;
  for (int i = 0; i < 20'000; ++i) {
    Blocks& owner = owners[random.Between(0, 5)];
    switch (random.Between(0, 3)) {
      case 0:
        for (auto block = owner.rbegin(); block != owner.rend(); ++block) {
          if (--holders[*block] == 0 && published.contains(*block)) cached.push_back(*block);
        }
        pool.Release(owner);
        owner.clear();
        break;
      case 1: {
        const auto count = static_cast<int32_t>(random.Between(0, std::min(4, pool.available())));
        const int32_t free = pool.free();
        Blocks evicted;
        const size_t had = owner.size();
        pool.Allocate(count, &owner, &evicted);
        ASSERT_EQ(static_cast<int32_t>(evicted.size()), std::max(0, count - free));
        for (const BlockId block : evicted) {
          ASSERT_EQ(block, cached.front());
          cached.pop_front();
          published.erase(block);
        }
        for (size_t at = had; at < owner.size(); ++at) ASSERT_EQ(++holders[owner[at]], 1);
        break;
      }
      case 2:
        if (!owner.empty()) {
          pool.MarkPublished(owner.back());
          published.insert(owner.back());
        }
        break;
      default: {
        const BlockId block(static_cast<int32_t>(random.Between(0, kBlocks - 1)));
        if (holders[block] == 0 && !published.contains(block)) break;
        pool.Share(block);
        ++holders[block];
        cached.remove(block);
        owner.push_back(block);
      }
    }
    ASSERT_EQ(pool.cached(), static_cast<int32_t>(cached.size()));
    ASSERT_EQ(pool.in_use(), std::count_if(holders.begin(), holders.end(),
                                           [](const auto& entry) { return entry.second > 0; }));
    pool.CheckEveryBlock();
  }
}

}  // namespace
}  // namespace tutti::coordinator
