// Whose turn it is to have a row.
#include "coordinator/steps/row_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/random.h"

namespace tutti::coordinator {
namespace {

using testing::ElementsAre;

class RowTurnsTest : public testing::Test {
 protected:
  // It runs, and is in line.
  Sequence* Add(uint64_t owner, uint64_t request) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request.id = RequestId(1000 + sequences_.size());
    sequence->request.first_output = RequestId(request);
    sequence->request.owner.low = owner;
    sequence->stay.id = SequenceId(1 + sequences_.size());
    sequences_.push_back(std::move(sequence));
    turns_.Run(sequences_.back().get());
    turns_.Add(sequences_.back().get());
    return sequences_.back().get();
  }
  // The numbers of so many whose turn it is, from 1.
  std::vector<uint64_t> Take(int count) {
    std::vector<uint64_t> taken;
    for (int i = 0; i < count; ++i) taken.push_back(turns_.Take()->stay.id.value());
    return taken;
  }

  RowTurns turns_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

TEST_F(RowTurnsTest, OneAfterTheOtherWhereEachIsARequest) {
  for (uint64_t request = 1; request <= 4; ++request) Add(1, request);
  EXPECT_THAT(Take(3), ElementsAre(1, 2, 3));
  turns_.Add(sequences_[1].get());
  EXPECT_THAT(Take(2), ElementsAre(4, 2));
  EXPECT_TRUE(turns_.empty());
}

TEST_F(RowTurnsTest, OwnersThenRequestsThenOutputs) {
  for (const uint64_t request : {1, 1, 1, 2, 2, 3}) Add(1, request);  // 1 to 6
  Add(2, 4);                                                          // 7
  for (const uint64_t request : {5, 6}) Add(3, request);              // 8, 9
  EXPECT_THAT(Take(9), ElementsAre(1, 7, 8, 4, 9, 6, 2, 5, 3));
}

// A request of one output has every second turn of its owner's, whatever the other has.
TEST_F(RowTurnsTest, RequestsOfAnOwnerAlternateOverSteps) {
  Add(1, 1);
  for (int output = 0; output < 64; ++output) Add(1, 2);
  int turns = 0;
  for (int step = 0; step < 100; ++step) {
    Sequence* const taken = turns_.Take();
    turns += taken->request.first_output == RequestId(1);
    turns_.Add(taken);
  }
  EXPECT_EQ(turns, 50);
}

TEST_F(RowTurnsTest, WhoLeavesIsPassedOver) {
  for (const uint64_t request : {1, 1, 2}) Add(1, request);
  Add(2, 3);
  EXPECT_TRUE(turns_.Erase(sequences_[0].get()));
  EXPECT_FALSE(turns_.Erase(sequences_[0].get()));
  turns_.Stop(sequences_[0].get());
  EXPECT_TRUE(turns_.Erase(sequences_[3].get()));
  turns_.Stop(sequences_[3].get());
  EXPECT_EQ(turns_.owners(), 1);
  EXPECT_THAT(Take(2), ElementsAre(2, 3));
}

TEST_F(RowTurnsTest, CountsWhoRuns) {
  EXPECT_EQ(turns_.fewest_of_owner(), 0);
  for (int output = 0; output < 5; ++output) Add(1, 1);
  EXPECT_EQ(turns_.fewest_of_owner(), 5);
  Sequence* const other = Add(2, 2);
  EXPECT_EQ(turns_.owners(), 2);
  EXPECT_EQ(turns_.fewest_of_owner(), 1);
  turns_.Take();
  turns_.Take();
  EXPECT_EQ(turns_.fewest_of_owner(), 1) << "in line or not";
  turns_.Stop(other);
  EXPECT_EQ(turns_.owners(), 1);
  EXPECT_EQ(turns_.fewest_of_owner(), 5);
}

// Steps of few rows, for owners of all sizes: beside one who is left out nobody has two rows more,
// and who is in line has a turn in time.
TEST_F(RowTurnsTest, NobodyIsLeftOutBesideOneWithTwoRowsMore) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    turns_ = RowTurns();
    sequences_.clear();
    const auto owners = static_cast<uint64_t>(random.Between(1, 6));
    uint64_t request = 0;
    for (uint64_t owner = 1; owner <= owners; ++owner) {
      for (int64_t requests = random.Between(1, 8); requests > 0; --requests) {
        ++request;
        for (int64_t outputs = random.Between(1, 8); outputs > 0; --outputs) Add(owner, request);
      }
    }
    const auto rows = static_cast<int>(random.Between(1, 40));
    std::map<const Sequence*, int> had_row;
    int64_t turns = 0;
    for (int step = 0; step < 500; ++step) {
      std::set<Sequence*> in_line;
      for (const auto& one : sequences_) {
        if (one->stay.turn.waits) in_line.insert(one.get());
      }
      ASSERT_EQ(in_line.size(), static_cast<size_t>(turns_.size()));
      std::map<uint64_t, int> of_owner;
      std::vector<Sequence*> taken;
      for (int row = 0; row < rows && !turns_.empty(); ++row) {
        taken.push_back(turns_.Take());
        ASSERT_EQ(in_line.erase(taken.back()), 1u);
        ++of_owner[taken.back()->request.owner.low];
        ++had_row[taken.back()];
        ++turns;
      }
      for (const Sequence* out : in_line) {
        for (const auto& [owner, count] : of_owner) {
          ASSERT_LE(count, of_owner[out->request.owner.low] + 1);
        }
      }
      for (Sequence* one : taken) turns_.Add(one);
    }
    // In a round of turns each owner has one, of its requests 8, of their outputs 8.
    for (const auto& one : sequences_) {
      ASSERT_GE(had_row[one.get()], turns / static_cast<int64_t>(owners * 8 * 8) - 1);
    }
  }
}

}  // namespace
}  // namespace tutti::coordinator
