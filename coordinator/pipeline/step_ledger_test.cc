#include "coordinator/pipeline/step_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;

// Two ranks (shards 0 and 1), then one (shard 2). A stage reads 1 MB for a step, at 1 GB/s.
std::vector<placement::StagePlacement> Stages() {
  placement::StagePlacement first;
  first.num_layers = 1;
  first.cost.layer_bytes = 1e6;
  first.speed = {1e9, 1e12};
  first.ranks.resize(2);
  placement::StagePlacement second = first;
  second.ranks.resize(1);
  return {first, second};
}

class StepLedgerTest : public testing::Test {
 protected:
  static Instant At(int64_t ms) { return Instant() + std::chrono::milliseconds(ms); }

  void Send(int64_t ms, int32_t rows = 1) {
    v1::StepPlan plan;
    plan.set_step(ledger_.last_step() + 1);
    plan.set_total_rows(rows);
    ledger_.OnSent(plan, At(ms));
  }
  absl::Status Done(size_t shard, int64_t ms, int64_t compute_ms = 0, int64_t wait_ms = 0,
                    int64_t exchange_wait_ms = 0) {
    v1::StepDone done;
    done.set_step(ledger_.done_step(shard) + 1);
    done.set_compute_us(compute_ms * 1000);
    done.set_wait_us(wait_ms * 1000);
    done.set_exchange_wait_us(exchange_wait_ms * 1000);
    return ledger_.OnDone(shard, done, At(ms));
  }
  v1::StageStatus Status(size_t shard, int64_t ms) const {
    v1::StageStatus status;
    ledger_.FillStatus(shard, At(ms), &status);
    return status;
  }

  StepLedger ledger_{Stages(), At(0)};
};

TEST_F(StepLedgerTest, WithoutAnEpochThereIsNothing) {
  const StepLedger none;
  EXPECT_EQ(none.last_step(), 0u);
  EXPECT_EQ(none.finished_steps(), 0u);
  EXPECT_EQ(none.BusySeconds(At(100)), 0);
  EXPECT_FALSE(none.pace().straggler().has_value());
}

TEST_F(StepLedgerTest, WorkComesWithThePlanAndThenFromStageToStage) {
  for (size_t shard = 0; shard < 3; ++shard) EXPECT_FALSE(ledger_.HasWork(shard)) << shard;
  Send(10);
  EXPECT_TRUE(ledger_.HasWork(0));
  EXPECT_TRUE(ledger_.HasWork(1));
  EXPECT_FALSE(ledger_.HasWork(2));
  EXPECT_EQ(ledger_.work_since(0), At(10));
  ASSERT_TRUE(Done(0, 15).ok());
  EXPECT_FALSE(ledger_.HasWork(0));
  EXPECT_FALSE(ledger_.HasWork(2)) << "the other rank has not done it";
  ASSERT_TRUE(Done(1, 20).ok());
  EXPECT_TRUE(ledger_.HasWork(2));
  EXPECT_EQ(ledger_.work_since(2), At(20));
  EXPECT_EQ(ledger_.finished_steps(), 0u);
  ASSERT_TRUE(Done(2, 30).ok());
  EXPECT_EQ(ledger_.finished_steps(), 1u);
}

TEST_F(StepLedgerTest, AStepSentWhileOneIsUnderWayIsWorkFromTheEndOfThatOne) {
  Send(10);
  Send(12);
  EXPECT_EQ(ledger_.work_since(0), At(10));
  ASSERT_TRUE(Done(0, 25).ok());
  EXPECT_TRUE(ledger_.HasWork(0));
  EXPECT_EQ(ledger_.work_since(0), At(25));
}

TEST_F(StepLedgerTest, RefusesAStepOutOfOrderAndTimesBelowZero) {
  const absl::Status early = Done(0, 1);
  EXPECT_EQ(early.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(early.message(), HasSubstr("step 1 done, after 0 of 0 planned"));
  Send(1);
  Send(1);
  v1::StepDone second;
  second.set_step(2);
  EXPECT_EQ(ledger_.OnDone(0, second, At(2)).code(), absl::StatusCode::kFailedPrecondition);
  const absl::Status negative = Done(0, 2, /*compute_ms=*/1, /*wait_ms=*/-1);
  EXPECT_EQ(negative.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(negative.message(), HasSubstr("waited -1000 us"));
  EXPECT_EQ(ledger_.done_step(0), 0u) << "nothing changes on an error";
  EXPECT_EQ(Status(0, 2).compute_seconds_total(), 0);
}

TEST_F(StepLedgerTest, BusyFromTheFirstStepSentToTheLastResult) {
  Send(100);
  EXPECT_DOUBLE_EQ(ledger_.BusySeconds(At(150)), 0.05);
  Send(120);
  for (const size_t shard : {0, 1, 2}) ASSERT_TRUE(Done(shard, 200).ok());
  EXPECT_DOUBLE_EQ(ledger_.BusySeconds(At(250)), 0.15) << "the second step is under way";
  for (const size_t shard : {0, 1, 2}) ASSERT_TRUE(Done(shard, 300).ok());
  EXPECT_DOUBLE_EQ(ledger_.BusySeconds(At(900)), 0.2);
  Send(1000);
  EXPECT_DOUBLE_EQ(ledger_.BusySeconds(At(1100)), 0.3);
}

TEST_F(StepLedgerTest, TimesRowsAndTrafficOfAShard) {
  Send(0, /*rows=*/7);
  Send(0, /*rows=*/3);
  ASSERT_TRUE(Done(0, 50, /*compute_ms=*/20, /*wait_ms=*/5, /*exchange_wait_ms=*/8).ok());
  v1::StageStatus status = Status(0, 100);
  EXPECT_EQ(status.steps_total(), 1u);
  EXPECT_EQ(status.rows(), 7);
  EXPECT_DOUBLE_EQ(status.compute_seconds_total(), 0.020);
  EXPECT_DOUBLE_EQ(status.wait_seconds_total(), 0.005);
  EXPECT_DOUBLE_EQ(status.exchange_wait_seconds_total(), 0.008);
  EXPECT_DOUBLE_EQ(status.compute_share(), 0.2);
  EXPECT_DOUBLE_EQ(status.step_seconds(), 0.020);
  EXPECT_NEAR(status.bubble_share(), 1 - 0.012 / 0.1, 1e-9);
  EXPECT_GT(status.predicted_step_seconds(), 0.9e-3);
  v1::StepDone done;
  done.set_step(2);
  done.set_compute_us(10'000);
  done.set_wait_us(45'000);  // overlaps with the step before
  done.mutable_activation_out()->set_bytes(1000);
  done.mutable_activation_out()->set_frames(2);
  ASSERT_TRUE(ledger_.OnDone(0, done, At(70)).ok());
  status = Status(0, 100);
  EXPECT_EQ(status.rows(), 10);
  EXPECT_DOUBLE_EQ(status.wait_seconds_total(), 0.005 + 0.010);
  EXPECT_EQ(status.activation_frames_out(), 2);
  EXPECT_DOUBLE_EQ(status.activation_bytes_per_token(), 100);
  EXPECT_EQ(Status(1, 100).rows(), 0);
}

class StepLedgerDraftsTest : public StepLedgerTest {
 protected:
  // A step that asks for drafts of one sequence each; 0: a prompt is read.
  void Ask(int64_t ms, const std::vector<int32_t>& drafts) {
    v1::StepPlan plan;
    plan.set_step(ledger_.last_step() + 1);
    plan.set_total_rows(static_cast<int32_t>(drafts.size()));
    for (const int32_t one : drafts) {
      v1::ScheduledSequence* const scheduled = plan.add_scheduled();
      scheduled->set_count(1);
      if (one >= 0) scheduled->set_drafts(one);
    }
    ledger_.OnSent(plan, At(ms));
  }
  absl::Status Drafted(size_t shard, int64_t ms, int64_t draft_ms, int32_t passes) {
    v1::StepDone done;
    done.set_step(ledger_.done_step(shard) + 1);
    done.set_compute_us(10'000);
    done.set_wait_us(1'000'000);
    done.set_draft_us(draft_ms * 1000);
    done.set_draft_passes(passes);
    return ledger_.OnDone(shard, done, At(ms));
  }
  // All shards do the oldest step.
  void DoneByAll(int64_t ms, int64_t draft_ms, int32_t passes) {
    for (const size_t shard : {0, 1, 2}) {
      ASSERT_TRUE(Drafted(shard, ms, draft_ms, passes).ok());
    }
  }
};

TEST_F(StepLedgerDraftsTest, TheirTimeIsNoTimeOfTheStep) {
  Ask(0, {4});
  DoneByAll(100, /*draft_ms=*/60, /*passes=*/4);
  EXPECT_DOUBLE_EQ(ledger_.draft_seconds(), 0.060) << "the first stage has no draft model";
  EXPECT_DOUBLE_EQ(Status(2, 100).compute_seconds_total(), 0.010);
  EXPECT_DOUBLE_EQ(Status(2, 100).wait_seconds_total(), 0.030);
  EXPECT_DOUBLE_EQ(Status(2, 100).step_seconds(), 0.010);
  EXPECT_NEAR(Status(2, 100).bubble_share(), 0.3, 1e-9);
  EXPECT_NEAR(Status(0, 100).bubble_share(), 0.9, 1e-9);
  EXPECT_DOUBLE_EQ(Status(0, 100).wait_seconds_total(), 0.090);
}

TEST_F(StepLedgerDraftsTest, APassIsLearntWhereAllDraftsAreMade) {
  for (int64_t step = 1; step <= 5; ++step) {
    Ask(step * 1000, step % 2 == 0 ? std::vector<int32_t>{0} : std::vector<int32_t>{4, 0});
    DoneByAll(step * 1000 + 500, /*draft_ms=*/200, /*passes=*/1);
  }
  EXPECT_FALSE(ledger_.times().draft_pass_seconds().has_value());
  for (int64_t step = 6; step <= 8; ++step) {
    Ask(step * 1000, {4, 2, -1});
    DoneByAll(step * 1000 + 500, /*draft_ms=*/20, /*passes=*/4);
  }
  EXPECT_NEAR(ledger_.times().draft_pass_seconds().value_or(0), 0.005, 1e-6);
}

TEST_F(StepLedgerDraftsTest, NoMoreTimeIsBelievedThanThereWas) {
  Ask(0, {4});
  for (const size_t shard : {0, 1}) ASSERT_TRUE(Drafted(shard, 50, 0, 0).ok());
  EXPECT_FALSE(Drafted(2, 100, -1, 4).ok());
  EXPECT_THAT(Drafted(2, 100, 1, -4).ToString(), HasSubstr("-4 passes for drafts in 1000 us"));
  ASSERT_TRUE(Drafted(2, 100, int64_t{1} << 50, 4).ok());
  EXPECT_DOUBLE_EQ(ledger_.draft_seconds(), 0.1);
  Ask(100, {-1});
  DoneByAll(200, /*draft_ms=*/50, /*passes=*/4);
  EXPECT_DOUBLE_EQ(ledger_.draft_seconds(), 0.1) << "nobody asked for any";
}

TEST_F(StepLedgerDraftsTest, AStepAloneTellsHowLongItIsOnItsWay) {
  EXPECT_EQ(ledger_.times().way_seconds(), 0);
  Ask(0, {4});
  for (const size_t shard : {0, 1}) ASSERT_TRUE(Drafted(shard, 15, 0, 0).ok());
  ASSERT_TRUE(Drafted(2, 100, /*draft_ms=*/60, /*passes=*/4).ok());
  EXPECT_NEAR(ledger_.times().way_seconds(), 0.020, 1e-6) << "two stages took 10 ms each";
  // Behind another, a step waits.
  Ask(200, {-1});
  Ask(200, {-1});
  DoneByAll(300, 0, 0);
  DoneByAll(400, 0, 0);
  EXPECT_NEAR(ledger_.times().way_seconds(), 0.020, 1e-6);
}

}  // namespace
}  // namespace tutti::coordinator
