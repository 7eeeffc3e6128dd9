#include "coordinator/kv/lacking_blocks.h"

#include <gtest/gtest.h>

namespace tutti::coordinator {
namespace {

using Part = LackingBlocks::Part;

constexpr int32_t kWholeBlock = 16;
const std::string kAll = "\xff\xff";

KvSurvival Lost(StageSet lost, std::vector<std::string> kept) {
  const auto stages = static_cast<int32_t>(kept.size());
  return {.num_stages = stages, .lost = lost, .kept_rows = std::move(kept)};
}

TEST(LackingBlocksTest, NothingLacksBeforeAStageIsLost) {
  LackingBlocks lacking;
  EXPECT_FALSE(lacking.IsDue(BlockId(3)));
  lacking.Overwrite(BlockId(3));
  lacking.Finish(BlockId(3), {0, 0});
  EXPECT_FALSE(Lost(0b111, {"", "", ""}).any());
  EXPECT_TRUE(Lost(0b101, {"", "", ""}).any());
  EXPECT_FALSE((KvSurvival{.num_stages = 65}.any()));
  EXPECT_FALSE(KvSurvival().any());
}

TEST(LackingBlocksTest, APartBeginsAfterTheNearestStageThatHasKeptTheRows) {
  LackingBlocks lacking;
  lacking.Lose(Lost(0b0100, {kAll, "\x02", "", ""}), 16);
  EXPECT_EQ(lacking.PartOf(BlockId(1)), (Part{2, 2}));
  EXPECT_EQ(lacking.PartOf(BlockId(2)), (Part{1, 2}));
  lacking.Lose(Lost(0b0001, {"", kAll, kAll, ""}), 16);
  EXPECT_EQ(lacking.PartOf(BlockId(2)), (Part{2, 2}));
  lacking.Plan(BlockId(2), {2, 2}, kWholeBlock, kWholeBlock);
  EXPECT_EQ(lacking.PartOf(BlockId(2)), (Part{0, 0}));
  lacking.Plan(BlockId(2), {0, 0}, kWholeBlock, kWholeBlock);
  EXPECT_FALSE(lacking.IsDue(BlockId(2)));
}

TEST(LackingBlocksTest, WhatWasPlannedIsBelievedWhenItIsDone) {
  LackingBlocks lacking;
  lacking.Lose(Lost(0b10, {kAll, ""}), 16);
  lacking.Plan(BlockId(0), {1, 1}, kWholeBlock, kWholeBlock);
  lacking.Plan(BlockId(1), {1, 1}, kWholeBlock, kWholeBlock);
  lacking.Finish(BlockId(0), {1, 1});
  EXPECT_FALSE(lacking.IsDue(BlockId(1)));
  // The pipeline ends again, and all its workers go on.
  lacking.Lose(Lost(0, {kAll, ""}), 16);
  EXPECT_FALSE(lacking.IsDue(BlockId(0)));
  EXPECT_EQ(lacking.PartOf(BlockId(1)), (Part{1, 1}));
}

TEST(LackingBlocksTest, ABlockIsPlannedInPieces) {
  LackingBlocks lacking;
  lacking.Lose(Lost(0b10, {kAll, ""}), 16);
  lacking.Plan(BlockId(4), {1, 1}, 10, kWholeBlock);
  EXPECT_TRUE(lacking.IsDue(BlockId(4)));
  EXPECT_EQ(lacking.planned_rows(BlockId(4)), 10);
  lacking.Plan(BlockId(4), {1, 1}, 6, kWholeBlock);
  EXPECT_FALSE(lacking.IsDue(BlockId(4)));
}

TEST(LackingBlocksTest, OtherContentsLackNothing) {
  LackingBlocks lacking;
  lacking.Lose(Lost(0b10, {kAll, ""}), 16);
  lacking.Overwrite(BlockId(5));
  EXPECT_FALSE(lacking.IsDue(BlockId(5)));
  lacking.Lose(Lost(0, {kAll, ""}), 16);
  EXPECT_FALSE(lacking.IsDue(BlockId(5)));
  EXPECT_TRUE(lacking.IsDue(BlockId(6)));
}

}  // namespace
}  // namespace tutti::coordinator
