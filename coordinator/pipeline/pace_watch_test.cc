#include "coordinator/pipeline/pace_watch.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace tutti::coordinator {
namespace {

// Workers that take so long for a step, with a little noise, for a while.
class PaceWatchTest : public testing::Test {
 protected:
  void Run(PaceWatch* watch, const std::vector<double>& seconds, double duration) {
    const Instant end = now_ + std::chrono::microseconds(static_cast<int64_t>(duration * 1e6));
    while (now_ < end) {
      double longest = 0;
      for (size_t i = 0; i < seconds.size(); ++i) {
        const double took =
            seconds[i] * (1 + 0.1 * static_cast<double>(random_.Between(0, 10)) / 10);
        watch->OnStep(i, took, predicted_, now_);
        longest = std::max(longest, took);
      }
      now_ += std::chrono::microseconds(static_cast<int64_t>(longest * 1e6));
    }
  }
  Instant now_ = Instant() + std::chrono::hours(1);
  Random random_{7};
  double predicted_ = 0.01;  // of each step
};

TEST_F(PaceWatchTest, NamesAWorkerThatTakesTwiceAsLongWithinTenSeconds) {
  PaceWatch watch(3);
  Run(&watch, {0.03, 0.05, 0.03}, 20);
  EXPECT_FALSE(watch.straggler().has_value()) << "an uneven split is not a slow worker";
  Run(&watch, {0.03, 0.05, 0.06}, 10);
  ASSERT_TRUE(watch.straggler().has_value());
  EXPECT_EQ(*watch.straggler(), 2u);
  EXPECT_NEAR(watch.slowdown(2), 2, 0.3);
  EXPECT_NEAR(watch.slowdown(0), 1, 0.2);
  Run(&watch, {0.03, 0.05, 0.03}, 10);
  EXPECT_FALSE(watch.straggler().has_value());
}

TEST_F(PaceWatchTest, ALoadThatAllShareNamesNobody) {
  PaceWatch watch(2);
  Run(&watch, {0.01, 0.02}, 20);
  Run(&watch, {0.1, 0.2}, 20);
  Run(&watch, {0.01, 0.02}, 20);
  EXPECT_FALSE(watch.straggler().has_value());
}

TEST_F(PaceWatchTest, OneThatWasSlowFromTheStartMayRecover) {
  PaceWatch watch(2);
  Run(&watch, {0.02, 0.04}, 20);
  Run(&watch, {0.02, 0.02}, 20);
  EXPECT_FALSE(watch.straggler().has_value());
  Run(&watch, {0.02, 0.04}, 10);
  EXPECT_EQ(watch.straggler(), std::optional<size_t>(1));
}

TEST_F(PaceWatchTest, AWorkerAloneIsNeverSlow) {
  PaceWatch watch(1);
  Run(&watch, {0.02}, 20);
  Run(&watch, {0.2}, 20);
  EXPECT_FALSE(watch.straggler().has_value());
  EXPECT_EQ(watch.slowdown(0), 1);
}

// A prompt that the first worker has computed and the second has still to.
TEST_F(PaceWatchTest, OnlyTheSameStepsAreCompared) {
  PaceWatch watch(2);
  std::vector<double> steps(1000, 0.02);
  for (size_t i = 40; i < steps.size(); i += 97) steps[i] = 2;
  for (size_t step = 0; step < steps.size(); ++step) {
    watch.OnStep(0, steps[step], 0.01, now_);
    if (step >= 3) watch.OnStep(1, steps[step - 3], 0.01, now_);
    now_ += std::chrono::microseconds(static_cast<int64_t>(steps[step] * 1e6));
    ASSERT_FALSE(watch.straggler().has_value()) << step;
    ASSERT_NEAR(watch.slowdown(0), 1, 1e-9) << step;
  }
}

TEST_F(PaceWatchTest, FewStepsSayNothing) {
  PaceWatch watch(2);
  Run(&watch, {1.0, 1.0}, 20);
  Run(&watch, {1.0, 3.0}, 3);
  EXPECT_FALSE(watch.straggler().has_value());
}

// ---- those whose place should move

TEST_F(PaceWatchTest, OneThatKeepsTakingThriceAsLongHasLeftItsPace) {
  PaceWatch watch(3);
  Run(&watch, {0.03, 0.05, 0.03}, 20);
  Run(&watch, {0.03, 0.05, 0.1}, 8);
  EXPECT_FALSE(watch.left_pace().has_value()) << "not for long enough";
  Run(&watch, {0.03, 0.05, 0.1}, 8);
  EXPECT_EQ(watch.left_pace(), std::optional<size_t>(2));
  EXPECT_NEAR(watch.strain(2), 3.3, 0.4);
}

TEST_F(PaceWatchTest, TwiceAsLongIsNamedAndMovesNobody) {
  PaceWatch watch(2);
  Run(&watch, {0.03, 0.03}, 20);
  Run(&watch, {0.03, 0.06}, 60);
  EXPECT_TRUE(watch.straggler().has_value());
  EXPECT_FALSE(watch.left_pace().has_value());
}

// A machine that is slow as a whole moves nobody, however slow it is.
TEST_F(PaceWatchTest, WorkersThatAreSlowAlikeKeepTheirPlaces) {
  PaceWatch watch(3);
  Run(&watch, {0.01, 0.02, 0.01}, 20);
  Run(&watch, {0.1, 0.21, 0.09}, 60);
  EXPECT_FALSE(watch.left_pace().has_value());
}

TEST_F(PaceWatchTest, OneThatIsSlowNowAndThenKeepsItsPlace) {
  PaceWatch watch(2);
  Run(&watch, {0.03, 0.03}, 20);
  for (int i = 0; i < 6; ++i) {
    Run(&watch, {0.03, 0.3}, 6);
    Run(&watch, {0.03, 0.03}, 6);
    ASSERT_FALSE(watch.left_pace().has_value()) << i;
  }
}

// Between the two limits it is neither slow anew nor well again.
TEST_F(PaceWatchTest, OneThatWaversIsStillFound) {
  PaceWatch watch(2);
  Run(&watch, {0.03, 0.03}, 20);
  Run(&watch, {0.03, 0.1}, 5);
  Run(&watch, {0.03, 0.066}, 4);
  Run(&watch, {0.03, 0.1}, 6);
  EXPECT_EQ(watch.left_pace(), std::optional<size_t>(1));
}

// Long prompts after short answers: one stage's steps are longer by far, as was predicted.
TEST_F(PaceWatchTest, WhatWasPredictedIsNotSlow) {
  PaceWatch watch(2);
  for (int i = 0; i < 2000; ++i) {
    const double more = i < 500 ? 1 : 5;
    watch.OnStep(0, 0.02, 0.01, now_);
    watch.OnStep(1, 0.02 * more, 0.01 * more, now_);
    now_ += std::chrono::milliseconds(40);
    ASSERT_FALSE(watch.left_pace().has_value()) << i;
  }
}

// Where no speed is known a mix of prompts and answers may look like three times; ten times does
// not.
TEST_F(PaceWatchTest, WithoutPredictionsOnlyGreatSlownessCounts) {
  predicted_ = 0;
  PaceWatch watch(2);
  Run(&watch, {0.03, 0.03}, 20);
  Run(&watch, {0.03, 0.12}, 30);
  EXPECT_FALSE(watch.left_pace().has_value());
  Run(&watch, {0.03, 0.3}, 15);
  EXPECT_EQ(watch.left_pace(), std::optional<size_t>(1));
}

TEST_F(PaceWatchTest, AWorkerAloneKeepsItsPlace) {
  PaceWatch watch(1);
  Run(&watch, {0.02}, 20);
  Run(&watch, {0.4}, 60);
  EXPECT_FALSE(watch.left_pace().has_value());
}

}  // namespace
}  // namespace tutti::coordinator
