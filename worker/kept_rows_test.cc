#include "worker/kept_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tutti::worker {
namespace {

constexpr int32_t kSize = 16;
constexpr int64_t kBytes = 4;

// Rows of positions [first, first + count) of one sequence with these blocks.
Batch BatchOf(const std::vector<int32_t>& blocks, int32_t first, int32_t count) {
  Batch batch;
  batch.rows = count;
  batch.sequences = {SequenceId(9)};
  for (int32_t i = 0; i < count; ++i) batch.positions.push_back(first + i);
  batch.row_begin = {0, count};
  batch.first_position = {first};
  batch.block_begin = {0};
  batch.blocks = blocks;
  return batch;
}

std::vector<std::byte> RowsOf(const Batch& batch, int value) {
  std::vector<std::byte> rows;
  for (const int32_t position : batch.positions) {
    rows.insert(rows.end(), kBytes, static_cast<std::byte>(value + position));
  }
  return rows;
}

std::vector<int> Bits(const KeptRows& kept) {
  std::vector<int> blocks;
  const std::string bits = kept.CompleteBlocks();
  for (size_t i = 0; i < bits.size() * 8; ++i) {
    if ((bits[i / 8] >> (i % 8) & 1) != 0) blocks.push_back(static_cast<int>(i));
  }
  return blocks;
}

class KeptRowsTest : public testing::Test {
 protected:
  void Store(const std::vector<int32_t>& blocks, int32_t first, int32_t count, int value = 0) {
    const Batch batch = BatchOf(blocks, first, count);
    kept_.Store(batch, RowsOf(batch, value));
  }
  absl::Status Load(const std::vector<int32_t>& blocks, int32_t first, int32_t count,
                    int value = 0) {
    const Batch batch = BatchOf(blocks, first, count);
    std::vector<std::byte> rows(count * kBytes);
    const absl::Status status = kept_.Load(batch, rows);
    if (status.ok()) {
      EXPECT_EQ(rows, RowsOf(batch, value));
    }
    return status;
  }

  KeptRows kept_{10, kSize, kBytes};
};

TEST_F(KeptRowsTest, RowsAreKeptByBlockWhateverTheChunks) {
  Store({7, 2, 9}, 0, 20);
  EXPECT_THAT(Bits(kept_), testing::ElementsAre(7));
  Store({7, 2, 9}, 20, 11);
  EXPECT_THAT(Bits(kept_), testing::ElementsAre(7));
  Store({7, 2, 9}, 31, 1);
  EXPECT_THAT(Bits(kept_), testing::ElementsAre(2, 7));
  EXPECT_EQ(Load({7, 2}, 0, 32), absl::OkStatus());
  EXPECT_EQ(Load({7, 2}, 5, 20), absl::OkStatus());
  EXPECT_THAT(Load({7, 2, 9}, 0, 33).message(), testing::HasSubstr("position 32 in block 9"));
}

TEST_F(KeptRowsTest, ABlockThatGetsOtherRowsIsNotBelievedBeforeAllAreThere) {
  Store({3}, 0, 16);
  Store({3}, 0, 4, 50);
  EXPECT_THAT(Bits(kept_), testing::IsEmpty());
  EXPECT_FALSE(Load({3}, 0, 16).ok());
  EXPECT_EQ(Load({3}, 0, 4, 50), absl::OkStatus());
  Store({3}, 4, 12, 50);
  EXPECT_EQ(Load({3}, 0, 16, 50), absl::OkStatus());
}

TEST_F(KeptRowsTest, ARowThatIsComputedAgainIsTheOneThatWasKept) {
  Store({3}, 0, 10);
  Store({3}, 9, 1);
  Store({3}, 10, 6);
  Store({3}, 15, 1);
  EXPECT_TRUE(Load({3}, 0, 16).ok());
  EXPECT_THAT(Bits(kept_), testing::ElementsAre(3));
}

TEST_F(KeptRowsTest, RowsThatCameAfterAGapAreNotKept) {
  Store({3}, 0, 4);
  Store({3}, 6, 10);
  Store({3}, 4, 12);
  EXPECT_THAT(Bits(kept_), testing::IsEmpty());
}

// Rows of guesses that were wrong are written again.
TEST_F(KeptRowsTest, RowsThatAreWrittenAgainAreKeptAsTheyAreThen) {
  Store({3}, 0, 10);
  Store({3}, 10, 6, 50);
  Store({3}, 11, 1);
  EXPECT_FALSE(Load({3}, 11, 2).ok());
  EXPECT_EQ(Load({3}, 11, 1), absl::OkStatus());
  EXPECT_EQ(Load({3}, 10, 1, 50), absl::OkStatus());
  Store({3}, 10, 6);
  EXPECT_EQ(Load({3}, 0, 16), absl::OkStatus());
}

TEST_F(KeptRowsTest, RowsThatGoElsewhereAreForgotten) {
  Store({3, 4}, 0, 32);
  kept_.Drop(BatchOf({3, 4}, 16, 1));
  EXPECT_THAT(Bits(kept_), testing::ElementsAre(3));
  kept_.Clear();
  EXPECT_THAT(Bits(kept_), testing::IsEmpty());
}

TEST_F(KeptRowsTest, BlocksBeyondTheLimitAreNotKept) {
  Store({9, 10}, 0, 32);
  EXPECT_THAT(Bits(kept_), testing::ElementsAre(9));
  EXPECT_FALSE(Load({9, 10}, 0, 32).ok());
  KeptRows none;
  const Batch batch = BatchOf({0}, 0, 16);
  none.Store(batch, RowsOf(batch, 0));
  EXPECT_EQ(none.CompleteBlocks(), "");
}

}  // namespace
}  // namespace tutti::worker
