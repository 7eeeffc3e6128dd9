#include "coordinator/kv/kv_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/random.h"
#include "coordinator/kv/block_pool.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kSmallBlock = 4;
constexpr PipelineId kFirst(0);
constexpr PipelineId kSecond(1);
constexpr Hash128 kTenant = {7, 8};
constexpr Hash128 kOtherTenant = {7, 9};

KvDirectoryOptions DirectoryOptions() {
  return {.key = {1, 2}, .model_fingerprint = "m", .dtype = "bf16", .block_size = kSmallBlock};
}

std::vector<TokenId> Tokens(int32_t count, TokenId first = 0) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<std::pair<uint32_t, int32_t>> Longest(const KvDirectory& directory,
                                                  const Hash128& domain,
                                                  const std::vector<TokenId>& tokens) {
  std::vector<std::pair<uint32_t, int32_t>> matches;
  for (const KvDirectory::Match& match : directory.LongestPerPipeline(domain, tokens)) {
    matches.emplace_back(match.pipeline.value(), match.tokens);
  }
  return matches;
}

class KvDirectoryTest : public testing::Test {
 protected:
  KvDirectoryTest() : directory_(DirectoryOptions()) {
    directory_.OpenPipeline(kFirst, 16);
    directory_.OpenPipeline(kSecond, 16);
  }

  // Publishes the full blocks of `tokens` in `blocks`; the first `shared` of them are already.
  void Publish(PipelineId pipeline, const std::vector<TokenId>& tokens,
               const std::vector<int32_t>& blocks, size_t shared = 0,
               const Hash128& domain = kTenant) {
    for (size_t i = shared; i < blocks.size(); ++i) {
      const auto parent = i == 0 ? std::nullopt : std::optional<BlockId>(blocks[i - 1]);
      directory_.Publish(pipeline, domain, parent, BlockId(blocks[i]),
                         std::span(tokens).subspan(i * kSmallBlock, kSmallBlock));
    }
  }

  std::vector<int32_t> Lookup(const std::vector<TokenId>& tokens, PipelineId pipeline = kFirst,
                              const Hash128& domain = kTenant) {
    std::vector<int32_t> blocks;
    for (const BlockId block : directory_.Lookup(domain, tokens, pipeline)) {
      blocks.push_back(block.value());
    }
    return blocks;
  }

  KvDirectory directory_;
};

TEST_F(KvDirectoryTest, FindsTheLongestPrefix) {
  Publish(kFirst, Tokens(12), {5, 3, 9});
  EXPECT_THAT(Lookup(Tokens(12)), ElementsAre(5, 3, 9));
  EXPECT_THAT(Lookup(Tokens(100)), ElementsAre(5, 3, 9));
  EXPECT_THAT(Lookup(Tokens(11)), ElementsAre(5, 3)) << "full blocks only";
  EXPECT_THAT(Lookup(Tokens(3)), IsEmpty());
  EXPECT_THAT(Lookup({}), IsEmpty());
  std::vector<TokenId> other = Tokens(12);
  other[6] = 99;
  EXPECT_THAT(Lookup(other), ElementsAre(5));
  other[0] = 99;
  EXPECT_THAT(Lookup(other), IsEmpty());
}

TEST_F(KvDirectoryTest, TheSameTokensElsewhereAreAnotherPrefix) {
  Publish(kFirst, Tokens(8), {0, 1});
  EXPECT_THAT(Lookup(Tokens(4, 4)), IsEmpty()) << "the second block's tokens at position 0";
}

TEST_F(KvDirectoryTest, TenantsNeverMeet) {
  Publish(kFirst, Tokens(8), {0, 1});
  EXPECT_THAT(Lookup(Tokens(8), kFirst, kOtherTenant), IsEmpty());
  Publish(kFirst, Tokens(4), {2}, 0, kOtherTenant);
  EXPECT_THAT(Lookup(Tokens(8), kFirst, kOtherTenant), ElementsAre(2));
  EXPECT_THAT(Lookup(Tokens(8)), ElementsAre(0, 1));
}

TEST_F(KvDirectoryTest, AHotPrefixLivesOnMoreThanOnePipeline) {
  Publish(kFirst, Tokens(12), {5, 3, 9});
  Publish(kSecond, Tokens(8), {1, 2});
  EXPECT_THAT(Lookup(Tokens(12), kSecond), ElementsAre(1, 2));
  EXPECT_EQ(directory_.prefixes(), 3);
  EXPECT_EQ(directory_.published(), 5);
  EXPECT_THAT(Longest(directory_, kTenant, Tokens(20)),
              ElementsAre(std::pair(0u, 12), std::pair(1u, 8)));
  EXPECT_THAT(Longest(directory_, kTenant, Tokens(8)),
              ElementsAre(std::pair(0u, 8), std::pair(1u, 8)));
  EXPECT_THAT(Longest(directory_, kOtherTenant, Tokens(20)), IsEmpty());
}

TEST_F(KvDirectoryTest, ForgetsFromTheTail) {
  Publish(kFirst, Tokens(8), {0, 1});
  Publish(kSecond, Tokens(4), {6});
  directory_.Forget(kFirst, BlockId(1));
  EXPECT_FALSE(directory_.IsPublished(kFirst, BlockId(1)));
  EXPECT_THAT(Lookup(Tokens(8)), ElementsAre(0));
  directory_.Forget(kFirst, BlockId(0));
  EXPECT_THAT(Lookup(Tokens(8)), IsEmpty());
  EXPECT_THAT(Lookup(Tokens(8), kSecond), ElementsAre(6)) << "the other pipeline keeps its own";
  directory_.Forget(kSecond, BlockId(6));
  EXPECT_EQ(directory_.prefixes(), 0);
  EXPECT_EQ(directory_.published(), 0);
}

TEST_F(KvDirectoryTest, APipelineTakesItsBlocksWithIt) {
  Publish(kFirst, Tokens(8), {0, 1});
  Publish(kSecond, Tokens(12), {6, 7, 8});
  directory_.ClosePipeline(kFirst);
  EXPECT_THAT(Lookup(Tokens(8)), IsEmpty());
  EXPECT_THAT(Longest(directory_, kTenant, Tokens(12)), ElementsAre(std::pair(1u, 12)));
  directory_.OpenPipeline(kFirst, 4);
  EXPECT_THAT(Lookup(Tokens(8)), IsEmpty());
  directory_.ClosePipeline(kSecond);
  EXPECT_EQ(directory_.prefixes(), 0);
}

TEST_F(KvDirectoryTest, AnUnknownPipelineHoldsNothing) {
  Publish(kFirst, Tokens(8), {0, 1});
  EXPECT_THAT(Lookup(Tokens(8), PipelineId(77)), IsEmpty());
}

// Two requests that computed the same side by side: each goes on from its own blocks.
TEST_F(KvDirectoryTest, TwinsOnOnePipeline) {
  Publish(kFirst, Tokens(8), {0, 1});
  Publish(kFirst, Tokens(12), {4, 5, 6});
  EXPECT_EQ(directory_.prefixes(), 3);
  EXPECT_THAT(Lookup(Tokens(12)), ElementsAre(4, 5, 6)) << "a chain that one holder can hold";
  EXPECT_THAT(Longest(directory_, kTenant, Tokens(12)), ElementsAre(std::pair(0u, 12)));
  directory_.Forget(kFirst, BlockId(6));
  directory_.Forget(kFirst, BlockId(5));
  directory_.Forget(kFirst, BlockId(4));
  EXPECT_THAT(Lookup(Tokens(12)), ElementsAre(0, 1));
}

using KvDirectoryDeathTest = KvDirectoryTest;

TEST_F(KvDirectoryDeathTest, OwnMistakesEndTheProcess) {
  Publish(kFirst, Tokens(8), {0, 1});
  EXPECT_DEATH(Publish(kFirst, Tokens(4), {1}), "block 1 is published twice");
  EXPECT_DEATH(Publish(kFirst, Tokens(8), {7, 8}, 1), "block 7 is not published");
  EXPECT_DEATH(directory_.Forget(kFirst, BlockId(9)), "block 9 is not published");
  EXPECT_DEATH(directory_.Forget(kFirst, BlockId(0)), "block 0 goes before the 1 after it");
}

// Pools of three pipelines and the directory, as schedulers use them, against a plain map of
// prefixes.
class KvDirectoryRandomTest : public testing::Test {
 protected:
  static constexpr uint32_t kPipelines = 3;
  static constexpr int32_t kBlocks = 12;
  struct Holder {
    uint32_t pipeline;
    Hash128 domain;
    std::vector<TokenId> tokens;
    std::vector<BlockId> blocks;
    size_t full() const { return tokens.size() / kSmallBlock; }
  };
  // The content of a published block: the domain, and all tokens up to its end.
  using Prefix = std::pair<uint64_t, std::vector<TokenId>>;

  void SetUp() override {
    for (uint32_t p = 0; p < kPipelines; ++p) directory_.OpenPipeline(PipelineId(p), kBlocks);
  }

  void ReleaseOne() {
    const size_t index = random_.Between(0, holders_.size() - 1);
    pools_[holders_[index].pipeline].Release(holders_[index].blocks);
    holders_.erase(holders_.begin() + static_cast<int64_t>(index));
  }

  void ReopenOne() {
    const auto p = static_cast<uint32_t>(random_.Between(0, kPipelines - 1));
    std::erase_if(holders_, [&](const Holder& holder) { return holder.pipeline == p; });
    std::erase_if(plain_, [&](const auto& entry) { return entry.first.first == p; });
    directory_.ClosePipeline(PipelineId(p));
    directory_.OpenPipeline(PipelineId(p), kBlocks);
    pools_[p] = BlockPool(kBlocks);
  }

  Holder DrawHolder() {
    Holder holder{.pipeline = static_cast<uint32_t>(random_.Between(0, kPipelines - 1)),
                  .domain = {static_cast<uint64_t>(random_.Between(0, 1)), 0}};
    for (int64_t i = random_.Between(1, 5 * kSmallBlock); i > 0; --i) {
      holder.tokens.push_back(static_cast<TokenId>(random_.Chance(0.9) ? 0 : 1));
    }
    return holder;
  }

  static Prefix PrefixOf(const Holder& holder, size_t blocks) {
    return {holder.domain.low,
            {holder.tokens.begin(),
             holder.tokens.begin() + static_cast<int64_t>(blocks * kSmallBlock)}};
  }

  // Whether the plain map has the holder's first `blocks` blocks on a pipeline, and not one more.
  bool IsLongest(const Holder& holder, uint32_t pipeline, size_t blocks) const {
    const auto known = [&](size_t count) {
      const Prefix prefix = PrefixOf(holder, count);
      return std::any_of(plain_.begin(), plain_.end(), [&](const auto& entry) {
        return entry.first.first == pipeline && entry.second == prefix;
      });
    };
    return (blocks == 0 || known(blocks)) && (blocks == holder.full() || !known(blocks + 1));
  }

  // A sequence comes: it shares the blocks it finds, and computes the rest.
  void AddOne() {
    Holder holder = DrawHolder();
    BlockPool& pool = pools_[holder.pipeline];
    const PipelineId pipeline(holder.pipeline);
    for (const auto& match : directory_.LongestPerPipeline(holder.domain, holder.tokens)) {
      ASSERT_TRUE(IsLongest(holder, match.pipeline.value(), match.tokens / kSmallBlock));
    }
    holder.blocks = directory_.Lookup(holder.domain, holder.tokens, pipeline);
    size_t shared = holder.blocks.size();
    ASSERT_TRUE(IsLongest(holder, holder.pipeline, shared));
    // Sometimes a twin: it computes itself a block that it could have shared.
    if (shared > 0 && random_.Chance(0.2)) holder.blocks.resize(--shared);
    for (const BlockId block : holder.blocks) pool.Share(block);
    const auto wanted = static_cast<int32_t>(holder.full() - shared);
    if (wanted > pool.available()) return pool.Release(holder.blocks);
    std::vector<BlockId> evicted;
    pool.Allocate(wanted, &holder.blocks, &evicted);
    for (const BlockId block : evicted) {
      directory_.Forget(pipeline, block);
      ASSERT_EQ(plain_.erase({holder.pipeline, block.value()}), 1u);
    }
    for (size_t i = shared; i < holder.full(); ++i) {
      const auto parent = i == 0 ? std::nullopt : std::optional(holder.blocks[i - 1]);
      directory_.Publish(pipeline, holder.domain, parent, holder.blocks[i],
                         std::span(holder.tokens).subspan(i * kSmallBlock, kSmallBlock));
      pool.MarkPublished(holder.blocks[i]);
      plain_[{holder.pipeline, holder.blocks[i].value()}] = PrefixOf(holder, i + 1);
    }
    holders_.push_back(std::move(holder));
  }

  Random random_{2};
  KvDirectory directory_{DirectoryOptions()};
  std::vector<BlockPool> pools_ = std::vector<BlockPool>(kPipelines, BlockPool(kBlocks));
  std::map<std::pair<uint32_t, int32_t>, Prefix> plain_;
  std::vector<Holder> holders_;
};

TEST_F(KvDirectoryRandomTest, KnowsWhatAPlainMapKnows) {
  for (int round = 0; round < 8000; ++round) {
    if (!holders_.empty() && random_.Chance(0.5)) {
      ReleaseOne();
    } else if (random_.Chance(0.005)) {
      ReopenOne();
    } else {
      ASSERT_NO_FATAL_FAILURE(AddOne());
    }
    ASSERT_EQ(directory_.published(), static_cast<int64_t>(plain_.size()));
    for (const BlockPool& pool : pools_) pool.CheckEveryBlock();
  }
}

// The promise of the header, with the number of blocks that is worst for tables: a power of two and
// one.
TEST(KvDirectoryMemoryTest, AHundredAndTwentyEightBytesABlock) {
  constexpr int32_t kBlocks = (1 << 16) + 1;
  KvDirectory directory(DirectoryOptions());
  directory.OpenPipeline(kFirst, kBlocks);
  for (int32_t block = 0; block < kBlocks; ++block) {
    const auto parent = block % 50 == 0 ? std::nullopt : std::optional(BlockId(block - 1));
    directory.Publish(kFirst, kTenant, parent, BlockId(block),
                      Tokens(kSmallBlock, block * kSmallBlock));
  }
  EXPECT_LE(directory.memory_bytes() / kBlocks, 128);
}

// A table that grew would stop the engine for as long as it takes to move it.
TEST(KvDirectoryMemoryTest, NothingGrowsWhileRequestsWait) {
  constexpr int32_t kBlocks = 3000;
  KvDirectory directory(DirectoryOptions());
  directory.OpenPipeline(kFirst, kBlocks);
  const int64_t before = directory.memory_bytes();
  for (int32_t block = 0; block < kBlocks; ++block) {
    directory.Publish(kFirst, kTenant, std::nullopt, BlockId(block), Tokens(kSmallBlock, block));
  }
  EXPECT_EQ(directory.prefixes(), kBlocks);
  EXPECT_EQ(directory.memory_bytes(), before);
}

}  // namespace
}  // namespace tutti::coordinator
