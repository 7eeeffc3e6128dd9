// How many drafts are asked for, by the time that they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "coordinator/limits.h"
#include "coordinator/steps/scheduler_drafts_testing.h"

namespace tutti::coordinator {
namespace {

class SchedulerDraftTimesTest : public SchedulerDraftsTest {
 protected:
  SchedulerDraftTimesTest() { times_.emplace(std::vector{UnknownStage()}); }
  // Steps of any size take so long, and a pass of the draft model.
  void Learn(double step, double pass) {
    for (int i = 0; i < 10; ++i) {
      for (const int32_t rows : {1, 2, 4, 8, 16, 32}) {
        times_->OnStep(0, {.rows = double{1} * rows, .depth = 0, .kv_tokens = 0, .sampled = 1},
                       step);
      }
      if (pass > 0) times_->OnDrafts(3, 3 * pass);
    }
  }
  void GrowPace(Sequence* sequence) {
    for (int i = 0; i < 20; ++i) sequence->PaceOf(GuessOrigin::kDraft).OnVerified(15, 15);
  }
};

TEST_F(SchedulerDraftTimesTest, AFewAreAskedForToLearnTheirTime) {
  Start({});
  Learn(0.010, 0);
  Sequence* const sequence = AddRunning(5, 1000);
  GrowPace(sequence);
  EXPECT_EQ(DraftsOf(PlanOne()), kDraftsToLearn);
  Finish();
  Sequence* const other = Add(3, 1000);
  other->request.drafts_max = 0;
  PlanOne();
  Finish();
  EXPECT_EQ(DraftsOf(PlanOne()), 1) << "another waits";
}

TEST_F(SchedulerDraftTimesTest, AsManyAsBringMostTokensInASecond) {
  Start({});
  Learn(0.010, 0.0005);
  Sequence* const sequence = AddRunning(5, 1000);
  GrowPace(sequence);
  EXPECT_EQ(DraftsOf(PlanOne()), 15) << "all are right";
  Finish();
  // Half of them are right: the third brings an eighth of a token, in a tenth of a step.
  GuessPace& pace = sequence->PaceOf(GuessOrigin::kDraft);
  for (int i = 0; i < 60; ++i) pace.OnVerified(2, i % 2);
  pace.OnVerified(15, 15);
  Learn(0.010, 0.001);
  const int32_t some = DraftsOf(PlanOne());
  EXPECT_GE(some, 2);
  EXPECT_LE(some, 5);
  Finish();
  // A pass takes as long as a step.
  Learn(0.010, 0.010);
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
  Finish();
  // Where that is so no more, it is found out.
  int32_t most = -1;
  for (int i = 0; i < 1000 && most < 1; ++i) {
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    times_->OnStep(0, {.rows = 1, .depth = 0, .kv_tokens = 0, .sampled = 1}, 0.010);
    sequence->request.max_tokens = 1'000'000;
    most = DraftsOf(PlanOne());
    Finish();
  }
  EXPECT_GE(most, 1);
}

// Drafts save the ways of steps too.
TEST_F(SchedulerDraftTimesTest, OfSmallModelsStepsTakeTheirWay) {
  Start({});
  Learn(0.001, 0.001);
  GrowPace(AddRunning(5, 1000));
  EXPECT_EQ(DraftsOf(PlanOne()), -1);
  Finish();
  times_->OnWay(0.004);
  EXPECT_GE(DraftsOf(PlanOne()), 8);
}

TEST_F(SchedulerDraftTimesTest, OthersWaitHardlyLonger) {
  Start({});
  Learn(0.010, 0.0005);
  GrowPace(AddRunning(5, 1000));
  Sequence* const other = Add(3, 1000);
  other->request.drafts_max = 0;
  PlanOne();
  Finish();
  EXPECT_EQ(DraftsOf(PlanOne()), -1) << "a pass is five in a hundred";
  Finish();
  Learn(0.010, 0.00015);
  EXPECT_EQ(DraftsOf(PlanOne()), 2) << "and now it is one and a half";
}

// Who comes next waits for drafts as for guesses (scheduler_turns_test.cc).
TEST_F(SchedulerDraftTimesTest, NoLongStepsAsLongAsOthersAreLikelyToCome) {
  Start({.itl_target = std::chrono::milliseconds(200)});
  Learn(0.010, 0.002);
  GrowPace(AddRunning(5, 1000));
  EXPECT_EQ(DraftsOf(PlanOne()), 15) << "alone";
  Finish();
  Add(3, /*max_tokens=*/1, /*priority=*/0, /*owner=*/1);
  PlanOne();
  Finish();
  ASSERT_EQ(scheduler_->running(), 1);
  const int32_t drafts = std::max(0, DraftsOf(PlanOne()));
  EXPECT_LE(0.010 + 0.002 * drafts, 0.010 * kQuickStep);
}

TEST_F(SchedulerDraftTimesTest, NoStepIsMuchLongerThanTheTarget) {
  for (const int64_t target_us : {1'000, 11'600, 20'000}) {
    Start({.itl_target = std::chrono::microseconds(target_us)});
    Learn(0.010, 0.00049);
    said_ = 0;
    Sequence* const sequence = AddRunning(5, 1000);
    GrowPace(sequence);
    EXPECT_EQ(DraftsOf(PlanOne()), target_us == 20'000 ? 15 : 10) << "half as long again";
    Finish();
    Sequence* const other = Add(3, 1000);
    other->request.drafts_max = 0;
    PlanOne();
    Finish();
    Learn(0.010, 0.0001);
    EXPECT_EQ(DraftsOf(PlanOne()), target_us == 1'000 ? -1 : 4) << "four in a hundred";
    Finish();
    scheduler_->Remove(other);
    scheduler_->Remove(sequence);
  }
}

}  // namespace
}  // namespace tutti::coordinator
