// How owners share the rows of steps: who has many sequences takes turns where rows take time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/random.h"
#include "coordinator/steps/scheduler_testing.h"
#include "coordinator/steps/step_times.h"

namespace tutti::coordinator {
namespace {

class SchedulerTurnsTest : public SchedulerTest {
 protected:
  // Stages that read weights for as long as so many rows take.
  void Begin(double free_rows, int32_t stages = 1) {
    sequences_.clear();
    Start({.max_sequences = 256}, stages, 20'000);
    times_ = StepTimes(std::vector(stages, StageOf(free_rows)));
    scheduler_->TimeBy(&times_);
  }
  // Requests of so many outputs each.
  void Ask(uint64_t owner, int requests, int32_t outputs = 1, int32_t tokens = 10'000) {
    for (int i = 0; i < requests; ++i) AddOutputs(outputs, 3, tokens, owner);
  }
  void Steps(int count) {
    for (int step = 0; step < count; ++step) {
      Plan();
      Finish();
    }
  }
  // Rows of each owner in the next step.
  std::map<uint64_t, int> RowsOfStep() {
    std::map<uint64_t, int> rows;
    for (const v1::StepPlan& plan : Plan()) {
      for (const v1::ScheduledSequence& one : plan.scheduled()) {
        const Sequence* const has = scheduler_->FindRunning(SequenceId(one.sequence()));
        ++rows[has->request.owner.low];
        had_row_[has] = step_;
      }
      Finish();
    }
    ++step_;
    for (const Sequence* one : scheduler_->Running()) {
      longest_wait_ =
          std::max(longest_wait_, step_ - had_row_.try_emplace(one, step_).first->second);
    }
    return rows;
  }
  using Rows = std::map<uint64_t, int>;

  StepTimes times_;
  int step_ = 0;
  std::map<const Sequence*, int> had_row_;
  int longest_wait_ = 0;
};

// The attack: 20 requests of 4 outputs beside somebody with two of one.
TEST_F(SchedulerTurnsTest, AnOwnerOfManyTakesTurnsBesideAnother) {
  Begin(/*free_rows=*/1);
  Ask(/*owner=*/1, 20, 4);
  Ask(/*owner=*/2, 2);
  Steps(10);
  std::vector<int32_t> before;
  for (const auto& one : sequences_) before.push_back(one->total());
  for (int step = 0; step < 200; ++step) {
    // Four would be even; half as long again are six.
    ASSERT_EQ(RowsOfStep(), (Rows{{1, 4}, {2, 2}}));
  }
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const int32_t rows = sequences_[i]->total() - before[i];
    if (i >= 80) {
      EXPECT_EQ(rows, 200) << "a row in every step";
    } else {
      EXPECT_NEAR(rows, 200 * 4 / 80, 1) << "each has its turn";
    }
  }
  EXPECT_LE(longest_wait_, 80 / 4);
}

TEST_F(SchedulerTurnsTest, NothingChangesWhereRowsTakeNoTime) {
  Begin(/*free_rows=*/200);
  Ask(1, 20, 4);
  Ask(2, 2);
  Steps(10);
  for (int step = 0; step < 10; ++step) ASSERT_EQ(RowsOfStep(), (Rows{{1, 80}, {2, 2}}));
}

TEST_F(SchedulerTurnsTest, OnlyAsManyRowsAsTakeNoTimeAreAdded) {
  Begin(/*free_rows=*/24);
  Ask(1, 20, 4);
  Ask(2, 2);
  Steps(10);
  // 24 rows take as long as four, and 36 half as long again.
  for (int step = 0; step < 40; ++step) {
    Rows rows = RowsOfStep();
    ASSERT_EQ(rows[2], 2);
    ASSERT_GE(rows[1], 31);
    ASSERT_LE(rows[1], 34);
  }
}

TEST_F(SchedulerTurnsTest, AnOwnerAloneHasAllRows) {
  Begin(1);
  Ask(1, 80);
  Steps(10);
  for (int step = 0; step < 10; ++step) ASSERT_EQ(RowsOfStep(), (Rows{{1, 80}}));
  // And again, as soon as it is.
  Ask(2, 1, 1, /*tokens=*/5);
  Steps(2);
  EXPECT_EQ(RowsOfStep(), (Rows{{1, 2}, {2, 1}}));
  Steps(10);
  EXPECT_EQ(RowsOfStep(), (Rows{{1, 80}}));
}

TEST_F(SchedulerTurnsTest, OwnersOfAsManyHaveAllRows) {
  Begin(1);
  for (const uint64_t owner : {1, 2, 3}) Ask(owner, 8);
  Steps(10);
  for (int step = 0; step < 10; ++step) {
    ASSERT_EQ(RowsOfStep(), (Rows{{1, 8}, {2, 8}, {3, 8}}));
  }
}

// Nor does it help to be two.
TEST_F(SchedulerTurnsTest, TwoOwnersOfManyTakeTurnsBesideAThird) {
  Begin(1);
  Ask(1, 80);
  Ask(2, 20, 4);
  Ask(3, 1);
  Steps(10);
  for (int step = 0; step < 100; ++step) ASSERT_EQ(RowsOfStep(), (Rows{{1, 2}, {2, 2}, {3, 1}}));
  EXPECT_LE(longest_wait_, 80 / 2);
}

// Each has what it asks for, as far as the step goes round.
TEST_F(SchedulerTurnsTest, WhoAsksForLittleHasAllOfIt) {
  Begin(/*free_rows=*/12);
  Ask(1, 80);
  Ask(2, 4);
  Ask(3, 1);
  Steps(10);
  for (int step = 0; step < 100; ++step) {
    Rows rows = RowsOfStep();
    ASSERT_EQ(rows[3], 1);
    ASSERT_EQ(rows[2], 4);
    ASSERT_GE(rows[1], 12);
    ASSERT_LE(rows[1], 13);
  }
}

TEST_F(SchedulerTurnsTest, FirstOutputsOfAnOwnerComeBeforeFurtherOnes) {
  Begin(1);
  Ask(1, 1, 64);
  Ask(1, 3);
  Ask(2, 1);
  Steps(10);
  const auto total = [this](size_t i) { return sequences_[i]->total(); };
  std::vector<int32_t> before;
  for (size_t i = 0; i < sequences_.size(); ++i) before.push_back(total(i));
  for (int step = 0; step < 256; ++step) ASSERT_EQ(RowsOfStep(), (Rows{{1, 2}, {2, 1}}));
  // Two rows for four requests.
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(total(i) - before[i], 2, 1);
  for (size_t i = 64; i < 67; ++i) EXPECT_NEAR(total(i) - before[i], 128, 2);
}

TEST_F(SchedulerTurnsTest, SharesTheRowsOfSeveralStages) {
  Begin(1, /*stages=*/3);
  Ask(1, 20, 4);
  for (const uint64_t owner : {2, 3, 4, 5, 6}) Ask(owner, 1);
  Steps(40);
  std::vector<int32_t> before;
  for (const auto& one : sequences_) before.push_back(one->total());
  constexpr int kSteps = 300;
  for (int step = 0; step < kSteps; ++step) {
    for (const v1::StepPlan& plan : Plan()) ASSERT_LE(plan.total_rows(), 3);
    Finish();
  }
  for (size_t i = 0; i < 80; ++i) {
    EXPECT_NEAR(sequences_[i]->total() - before[i], kSteps * 4 / 3 / 80, 2);
  }
  for (size_t i = 80; i < sequences_.size(); ++i) {
    EXPECT_NEAR(sequences_[i]->total() - before[i], kSteps / 3, 2) << "as if it were alone";
  }
}

// The step that somebody comes in with is short already, though nobody could know.
TEST_F(SchedulerTurnsTest, WhoComesInTakesPartInTheNextStep) {
  Begin(1);
  Ask(1, 1, 64);  // one request, which alone has all rows
  Steps(10);
  ASSERT_EQ(RowsOfStep(), (Rows{{1, 64}}));
  Ask(2, 1);
  EXPECT_EQ(RowsOfStep(), (Rows{{1, 3}, {2, 1}})) << "its prompt";
  EXPECT_EQ(RowsOfStep(), (Rows{{1, 2}, {2, 1}}));
}

// Who comes next waits for the step under way, which guesses make long.
TEST_F(SchedulerTurnsTest, GuessesMakeNoLongStepsAsLongAsOthersAreLikelyToCome) {
  sequences_.clear();
  Start({.max_sequences = 256, .guesses_max = kGuessesMax}, 1, 20'000);
  times_ = StepTimes({StageOf(8)});
  scheduler_->TimeBy(&times_);
  CountingGuesses guesses;
  scheduler_->GuessBy(&guesses);
  const auto rows_at = [this](Instant now) {
    v1::StepPlan plan;
    EXPECT_TRUE(scheduler_->Plan(now, &plan));
    Finish();
    return plan.total_rows();
  };
  Instant now;
  Ask(1, 4);
  for (int step = 0; step < 40; ++step) rows_at(now);
  EXPECT_EQ(rows_at(now), 4 * (1 + kGuessesMax)) << "alone";
  Ask(2, 1, 1, /*tokens=*/1);
  rows_at(now);
  for (int step = 0; step < 5; ++step) {
    now += kOthersLately / 8;
    EXPECT_LE(rows_at(now), 8 * kQuickStep);
  }
  now += kOthersLately;
  EXPECT_EQ(rows_at(now), 4 * (1 + kGuessesMax));
}

// A class goes before those after it: one of them makes nobody before it take turns.
TEST_F(SchedulerTurnsTest, AClassIsNotSlowedByAnOwnerOfOneAfterIt) {
  Begin(/*free_rows=*/1);
  for (int i = 0; i < 20; ++i) Add(3, 10'000, /*priority=*/0, /*owner=*/1);
  Add(3, 10'000, /*priority=*/50, /*owner=*/2);
  Steps(10);
  for (int step = 0; step < 20; ++step) EXPECT_EQ(RowsOfStep()[1], 20);
}

// Nor does it help to say that one comes after others.
TEST_F(SchedulerTurnsTest, ManyOfAClassAfterAnotherTakeTurns) {
  Begin(/*free_rows=*/1);
  for (int i = 0; i < 80; ++i) Add(3, 10'000, /*priority=*/50, /*owner=*/1);
  for (int i = 0; i < 2; ++i) Add(3, 10'000, /*priority=*/0, /*owner=*/2);
  Steps(10);
  for (int step = 0; step < 20; ++step) {
    Rows rows = RowsOfStep();
    EXPECT_EQ(rows[2], 2);
    EXPECT_LE(rows[1], 4);
  }
}

// A step with a long prompt is long anyway: the rows of others are a small part of it.
TEST_F(SchedulerTurnsTest, BesideALongPromptNobodyTakesTurns) {
  Begin(/*free_rows=*/1);
  Ask(/*owner=*/1, 64);
  Steps(10);
  ASSERT_EQ(RowsOfStep(), (Rows{{1, 64}}));
  Sequence* const prompt = Add(100'000, 10, /*priority=*/0, /*owner=*/2);
  std::vector<int32_t> before;
  for (size_t i = 0; i < 64; ++i) before.push_back(sequences_[i]->total());
  int rows = 0;
  for (int step = 0; step < 40; ++step) {
    for (const v1::StepPlan& plan : Plan()) rows += plan.total_rows();
    Finish();
  }
  ASSERT_LT(prompt->stay.planned, 100'000);
  int generated = 0;
  for (size_t i = 0; i < 64; ++i) generated += sequences_[i]->total() - before[i];
  // All 64 in each step would be an eighth of its rows.
  EXPECT_GE(generated, 40 * 64 / 2) << "of " << rows << " rows, in 40 steps";
}

// Whatever comes and goes: everything ends, and with the tokens that it should have.
TEST_F(SchedulerTurnsTest, NobodyStarves) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    sequences_.clear();
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    Start({.max_batch_tokens = 64, .max_sequences = 24}, stages,
          static_cast<int32_t>(random.Between(20, 200)));
    times_ = StepTimes(std::vector(stages, StageOf(random.Between(1, 8))));
    scheduler_->TimeBy(&times_);
    for (int steps = 0; steps < 200 || scheduler_->running() + scheduler_->waiting() > 0; ++steps) {
      ASSERT_LT(steps, 20'000) << "a sequence starves";
      if (steps < 200 && random.Chance(0.2)) {
        Ask(static_cast<uint64_t>(random.Between(0, 4)), 1,
            static_cast<int32_t>(random.Chance(0.3) ? random.Between(2, 16) : 1),
            static_cast<int32_t>(random.Between(1, 60)));
      }
      Plan();
      if (scheduler_->steps().size() > 0) Finish();
    }
    for (const auto& one : sequences_) {
      ASSERT_EQ(one->output_tokens(), one->request.max_tokens);
      for (int32_t p = 0; p < one->total(); ++p) ASSERT_EQ(one->tokens[p], p);
    }
  }
}

// Beside masks that are late, answers that are cancelled and pipelines that end.
TEST_F(SchedulerTurnsTest, NobodyStarvesBesideFaults) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    sequences_.clear();
    const auto stages = static_cast<int32_t>(random.Between(1, 3));
    const auto blocks = static_cast<int32_t>(random.Between(20, 200));
    Start({.max_batch_tokens = 64,
           .max_sequences = 24,
           .guesses_max = static_cast<int32_t>(random.Between(0, 4))},
          stages, blocks);
    times_ = StepTimes(std::vector(stages, StageOf(random.Between(1, 8))));
    scheduler_->TimeBy(&times_);
    CountingGuesses guesses;
    guesses.count_ = static_cast<int32_t>(random.Between(0, 4));
    guesses.right_ = static_cast<int32_t>(random.Between(0, 4));
    scheduler_->GuessBy(&guesses);
    std::set<const Sequence*> gone;
    Instant now;
    for (int steps = 0; steps < 200 || scheduler_->running() + scheduler_->waiting() > 0; ++steps) {
      ASSERT_LT(steps, 30'000) << "a sequence starves";
      now += std::chrono::milliseconds(random.Between(0, 700));
      if (steps < 200 && random.Chance(0.2)) {
        const uint64_t first = sequences_.size() + 1;
        const auto owner = static_cast<uint64_t>(random.Between(0, 4));
        const auto n = static_cast<int32_t>(random.Chance(0.3) ? random.Between(2, 16) : 1);
        const auto prompt = static_cast<int32_t>(random.Between(1, 90));
        const auto tokens = static_cast<int32_t>(random.Between(1, 60));
        const auto priority = static_cast<int32_t>(random.Chance(0.2) ? random.Between(-2, 2) : 0);
        for (int32_t k = 0; k < n; ++k) Add(prompt, tokens, priority, owner, n > 1 ? first : 0);
      }
      if (steps < 300 && random.Chance(0.05) && scheduler_->running() > 0) {
        const auto running = scheduler_->Running();
        Sequence* one = running[static_cast<size_t>(
            random.Between(0, static_cast<int64_t>(running.size()) - 1))];
        gone.insert(one);
        scheduler_->Remove(one);
      }
      if (steps < 300 && random.Chance(0.02)) {
        scheduler_->EndEpoch();
        scheduler_->BeginEpoch(stages, blocks);
      }
      for (v1::StepPlan plan; scheduler_->Plan(now, &plan); plan = v1::StepPlan()) {
      }
      scheduler_->CheckLedger();
      ASSERT_TRUE(scheduler_->steps().size() > 0 ||
                  scheduler_->running() + scheduler_->waiting() == 0)
          << "stuck";
      if (scheduler_->steps().size() > 0) {
        std::vector<const Sequence*> late;
        for (const Sequence* one : scheduler_->Running()) {
          if (one->stay.id.value() % 3 == 0 && random.Chance(0.5)) late.push_back(one);
        }
        before_late_ = 0;
        Finish(late);
      }
    }
    for (const auto& one : sequences_) {
      if (gone.contains(one.get())) continue;
      ASSERT_EQ(one->output_tokens(), one->request.max_tokens);
      for (int32_t p = 0; p < one->total(); ++p) ASSERT_EQ(one->tokens[p], p);
    }
  }
}

}  // namespace
}  // namespace tutti::coordinator
