#include "coordinator/steps/step_time_bound.h"

#include <gtest/gtest.h>

#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

constexpr Duration kTarget = std::chrono::milliseconds(100);

// A step of so many rows takes so many hundredths of a second.
StepTimes Hundredths() {
  placement::StagePlacement stage;
  StepTimes times({stage});
  for (const int32_t rows : {1, 2, 4, 8, 16, 32, 64, 128}) {
    for (int i = 0; i < 10; ++i) {
      times.OnStep(0, {.rows = static_cast<double>(rows)}, 0.01 * rows);
    }
  }
  return times;
}

TEST(StepTimeBoundTest, WithoutATargetOrTimesNothingIsBound) {
  StepTimeBound bound(kTarget);
  EXPECT_FALSE(bound.IsWanted());
  EXPECT_EQ(bound.RowsInTime(0, 50, 40), 40);
  const StepTimes times = Hundredths();
  bound.TimeBy(&times);
  EXPECT_TRUE(bound.IsWanted());
  StepTimeBound any{Duration()};
  any.TimeBy(&times);
  EXPECT_FALSE(any.IsWanted());
}

TEST(StepTimeBoundTest, ThePromptThatEndsFirstBindsTheNext) {
  const StepTimes times = Hundredths();
  StepTimeBound bound(Duration(1));
  bound.TimeBy(&times);
  bound.Reset();
  bound.Begin();
  EXPECT_EQ(bound.RowsInTime(0, 50, 50), 50);
  bound.AddPrompt(0, 20, /*ends=*/false);
  EXPECT_EQ(bound.RowsInTime(0, 50, 50), 50);
  bound.AddPrompt(20, 4, /*ends=*/true);
  EXPECT_EQ(bound.RowsInTime(0, 50, 50), 0);
  bound.Reset();
  EXPECT_EQ(bound.RowsInTime(0, 50, 50), 50);
}

TEST(StepTimeBoundTest, PromptsGetOnBesideGeneration) {
  const StepTimes times = Hundredths();
  StepTimeBound bound(Duration(1));
  bound.TimeBy(&times);
  bound.Reset();
  bound.Begin();
  for (int i = 0; i < 12; ++i) bound.Add(100, 1, /*sample=*/true);
  bound.BindForGenerating(/*empty=*/false);
  const int32_t rows = bound.RowsInTime(0, 50, 50);
  EXPECT_GE(rows, kPromptRowsMin);
  EXPECT_LT(rows, 50);
  EXPECT_EQ(bound.RowsInTime(0, 50, 3), 3) << "fewer are wanted";
  bound.AddPrompt(0, rows, /*ends=*/false);
  EXPECT_LT(bound.RowsInTime(0, 50, 50), kPromptRowsMin);
}

}  // namespace
}  // namespace tutti::coordinator
