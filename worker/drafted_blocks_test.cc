#include "worker/drafted_blocks.h"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::worker {
namespace {

class DraftedBlocksTest : public ::testing::Test {
 protected:
  struct Sequence {
    std::vector<TokenId> tokens;
    std::vector<int32_t> blocks;
    std::vector<Hash128> names;
  };
  static DraftedBlocks::Text Of(Sequence* sequence) {
    return {.tokens = sequence->tokens, .blocks = sequence->blocks, .names = &sequence->names};
  }

  DraftedBlocks blocks_{8, 4};
  Sequence a_{.tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .blocks = {3, 5, 6}, .names = {}};
};

TEST_F(DraftedBlocksTest, KnowsWholeBlocksOfTheSameText) {
  EXPECT_EQ(blocks_.ComputedTo(Of(&a_), 0, 9), 0);
  blocks_.OnComputed(Of(&a_), 0, 3);
  EXPECT_EQ(blocks_.ComputedTo(Of(&a_), 0, 9), 0) << "a part of one";
  blocks_.OnComputed(Of(&a_), 3, 9);
  Sequence same{.tokens = a_.tokens, .blocks = {3, 5, 7}, .names = {}};
  EXPECT_EQ(blocks_.ComputedTo(Of(&same), 0, 9), 8);
  EXPECT_EQ(blocks_.ComputedTo(Of(&same), 4, 9), 8);
  EXPECT_EQ(blocks_.ComputedTo(Of(&same), 5, 9), 5) << "within a block";
  EXPECT_EQ(blocks_.ComputedTo(Of(&same), 0, 7), 4) << "the second is not cached";
  Sequence elsewhere{.tokens = a_.tokens, .blocks = {3, 6, 5}, .names = {}};
  EXPECT_EQ(blocks_.ComputedTo(Of(&elsewhere), 0, 9), 4);
}

TEST_F(DraftedBlocksTest, ABlockIsOfAllTokensBeforeIt) {
  blocks_.OnComputed(Of(&a_), 0, 8);
  Sequence other{.tokens = {0, 2, 3, 4, 5, 6, 7, 8}, .blocks = {1, 5}, .names = {}};
  EXPECT_EQ(blocks_.ComputedTo(Of(&other), 4, 8), 4);
}

TEST_F(DraftedBlocksTest, WhatIsWrittenAnewIsOfTheNewText) {
  blocks_.OnComputed(Of(&a_), 0, 8);
  Sequence other{.tokens = {7, 7, 7, 7, 7}, .blocks = {2, 3}, .names = {}};
  blocks_.OnComputed(Of(&other), 0, 5);
  EXPECT_EQ(blocks_.ComputedTo(Of(&a_), 0, 8), 0) << "one row of the block is another's";
  blocks_.OnComputed(Of(&a_), 0, 4);
  EXPECT_EQ(blocks_.ComputedTo(Of(&a_), 0, 8), 8);
}

}  // namespace
}  // namespace tutti::worker
