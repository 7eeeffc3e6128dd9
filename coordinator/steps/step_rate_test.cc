#include "coordinator/steps/step_rate.h"

#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;

class StepRateTest : public testing::Test {
 protected:
  void Steps(int count, int32_t rows, milliseconds each, size_t more = 1) {
    for (int i = 0; i < count; ++i) rate_.OnStep(rows, false, more, now_ += each);
  }
  void BoundedStep(int32_t rows, milliseconds each) { rate_.OnStep(rows, true, 1, now_ += each); }
  StepRate rate_{128};
  Instant now_{};
};

TEST_F(StepRateTest, UnknownUntilAGroupOfFullStepsIsDone) {
  EXPECT_EQ(rate_.rows_per_second(), 0);
  Steps(kRateGroupSteps, 128, milliseconds(10));
  EXPECT_EQ(rate_.rows_per_second(), 0) << "the first only says when the group begins";
  Steps(1, 128, milliseconds(10));
  EXPECT_NEAR(rate_.rows_per_second(), 12'800, 1);
}

TEST_F(StepRateTest, SmallStepsAndPausesSayNothing) {
  for (int i = 0; i < 100; ++i) {
    Steps(kRateGroupSteps - 1, 128, milliseconds(10));
    Steps(1, 127, milliseconds(10));
  }
  EXPECT_EQ(rate_.rows_per_second(), 0);
  Steps(100, 128, milliseconds(10), /*more=*/0);
  EXPECT_EQ(rate_.rows_per_second(), 0);
}

// They have many rows, and could have had more at less for each.
TEST_F(StepRateTest, BoundedStepsSayNothing) {
  for (int i = 0; i < 100; ++i) BoundedStep(128, milliseconds(10));
  EXPECT_EQ(rate_.rows_per_second(), 0);
  for (int i = 0; i < 100; ++i) {
    Steps(kRateGroupSteps - 1, 128, milliseconds(10));
    BoundedStep(128, milliseconds(10));
  }
  EXPECT_EQ(rate_.rows_per_second(), 0) << "and a group is none with one of them";
}

TEST_F(StepRateTest, TheBestOfTheRecentCounts) {
  Steps(kRateGroupSteps + 1, 128, milliseconds(10));
  const double fast = rate_.rows_per_second();
  Steps(kRateGroupSteps, 128, milliseconds(20));
  EXPECT_GT(rate_.rows_per_second(), 0.9 * fast) << "one slow group is no reason to give up";
  Steps(200 * kRateGroupSteps, 128, milliseconds(20));
  EXPECT_NEAR(rate_.rows_per_second(), 6'400, 1) << "but it has become slower";
  rate_.Forget();
  EXPECT_EQ(rate_.rows_per_second(), 0);
}

TEST_F(StepRateTest, ResultsThatComeTogetherAreNoMiracle) {
  Steps(1, 128, milliseconds(10));
  Steps(20 * kRateGroupSteps, 128, milliseconds(0));
  EXPECT_EQ(rate_.rows_per_second(), 0);
}

}  // namespace
}  // namespace tutti::coordinator
