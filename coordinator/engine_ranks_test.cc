// Stages of several ranks at the engine: the shard of each, and the one to blame when they wait
// for one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Two ranks feed one; stage 0 is w1 and w2, stage 1 is w3.
class EngineRanksTest : public EngineTest {
 protected:
  void SetUp() override { ServeRanks({2, 1}); }
  void ServeRanks(const std::vector<int32_t>& ranks) {
    EngineOptions options = TinyEngineOptions(static_cast<int32_t>(ranks.size()));
    options.stage_ranks = ranks;
    Serve(options, std::accumulate(ranks.begin(), ranks.end(), uint64_t{0}));
    for (const SendToWorker& sent : ActionsOf<SendToWorker>()) {
      if (sent.frame.has_assign_shard()) assigned_.push_back(sent.frame.assign_shard());
    }
    Turn();
  }
  // Worker `link` has done step `step`.
  void Done(uint64_t link, uint64_t step, int64_t exchange_wait_us = 0) {
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_step_done()->set_step(step);
    frame.mutable_step_done()->set_compute_us(1000);
    frame.mutable_step_done()->set_exchange_wait_us(exchange_wait_us);
    frame.mutable_step_done()->mutable_exchange_out()->set_bytes(4096);
    Send(link, frame);
  }
  void BeatWaiting(uint64_t link, const std::string& waiting_for) {
    v1::Frame frame;
    frame.mutable_beat()->set_progress(0);
    frame.mutable_beat()->set_waiting_for(waiting_for);
    Send(link, frame);
  }
  // Worker `link` ends its part of the pipeline. Only what is done about it stays in actions_.
  void GiveUp(uint64_t link, const std::string& why) {
    actions_.clear();
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_failure()->set_message(why);
    Send(link, frame);
    Turn();
  }
  std::vector<v1::AssignShard> assigned_;
};

TEST_F(EngineRanksTest, AStageIsSharedByItsRanks) {
  ASSERT_EQ(assigned_.size(), 3u);
  for (int rank = 0; rank < 2; ++rank) {
    const v1::AssignShard& shard = assigned_[rank];
    EXPECT_EQ(shard.stage(), 0);
    EXPECT_EQ(shard.num_stages(), 2);
    EXPECT_EQ(shard.rank(), rank);
    EXPECT_EQ(shard.num_ranks(), 2);
    EXPECT_THAT(shard.rank_worker_ids(), testing::ElementsAre("w1", "w2"));
  }
  EXPECT_THAT(assigned_[0].next_worker_ids(), testing::ElementsAre("w3"));
  EXPECT_THAT(assigned_[1].next_worker_ids(), testing::IsEmpty()) << "it has the same activation";
  EXPECT_EQ(assigned_[2].previous_worker_id(), "w1");
  EXPECT_EQ(assigned_[2].num_ranks(), 1);
  EXPECT_TRUE(assigned_[2].rank_worker_ids().empty());

  const v1::GetStatusResponse status = Status();
  EXPECT_TRUE(status.serving());
  ASSERT_EQ(status.pipelines(0).stages_size(), 3);
  EXPECT_EQ(status.pipelines(0).stages(1).stage(), 0);
  EXPECT_EQ(status.pipelines(0).stages(1).rank(), 1);
  EXPECT_EQ(status.pipelines(0).stages(1).num_ranks(), 2);
  EXPECT_EQ(status.pipelines(0).stages(2).stage(), 1);
}

TEST_F(EngineRanksTest, EveryRankTellsWhatItHasDone) {
  Arrive(1, 5, 2);
  Turn();
  now_ += milliseconds(10);
  Done(1, 1, 400);
  Done(2, 1);
  v1::Frame frame = ResultFrame(epoch(), /*step=*/1);
  v1::StepResult* const result = frame.mutable_step_result();
  result->add_sampled()->set_sequence(1);
  result->mutable_sampled(0)->set_position(5);
  result->mutable_sampled(0)->set_token(9);
  // Not from a rank that does not tell results.
  v1::Frame wrong = frame;
  Send(3, frame);
  Turn();
  EXPECT_THAT(ActionsOf<CloseWorker>(), testing::IsEmpty());
  EXPECT_GT(Status().pipelines(0).stages(0).exchange_wait_share(), 0);
  EXPECT_EQ(Status().pipelines(0).stages(1).exchange_bytes_out(), 4096);
  wrong.mutable_step_result()->set_step(2);
  Send(2, wrong);
  Turn();
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_EQ(ActionsOf<CloseWorker>()[0].link, LinkKey(2));
}

// The way from w1 to w2 is cut. So w2 waits for w1, which has done the step and fed w3; w3 waits
// for w4, which w2 should have fed. All give up after the same time, and w3 is heard of first.
TEST_F(EngineRanksTest, WhoGivesUpIsNotToBlameForWhatStopsTheStageBefore) {
  ServeRanks({2, 2});
  Arrive(1, 5, 2);
  Turn();
  Done(1, 1);
  BeatWaiting(1, "");
  BeatWaiting(2, "w1");
  BeatWaiting(3, "w4");
  BeatWaiting(4, "");
  GiveUp(3, "nothing came from rank 1 (w4)");
  EXPECT_THAT(ActionsOf<CloseWorker>(), testing::IsEmpty());
  EXPECT_THAT(Status().degraded(),
              HasSubstr("the rank link from w1 to w2 failed: nothing comes through it"));
}

TEST_F(EngineRanksTest, ForRanksThatWaitForEachOtherTheirLinkIsToBlame) {
  Arrive(1, 5, 2);
  Turn();
  BeatWaiting(1, "w2");
  BeatWaiting(2, "w1");
  GiveUp(2, "nothing came from rank 0 (w1)");
  EXPECT_THAT(ActionsOf<CloseWorker>(), testing::IsEmpty());
  EXPECT_THAT(Status().degraded(), HasSubstr("the rank link from w1 to w2 failed"));
}

// The chain of waits ends at a feeder that is only now at its step: it has been held up, and is not
// to blame any more.
TEST_F(EngineRanksTest, WhoGivesUpAfterTheHoldUpIsOverSendsNobodyAway) {
  ServeRanks({2, 2});
  Arrive(1, 5, 2);
  Turn();
  BeatWaiting(3, "w4");
  BeatWaiting(4, "");
  GiveUp(3, "nothing came from rank 1 (w4)");
  EXPECT_THAT(ActionsOf<CloseWorker>(), testing::IsEmpty());
  EXPECT_THAT(Status().degraded(), HasSubstr("w3 (stage 1 rank 0) gave up: nothing came from"));
}

TEST_F(EngineRanksTest, WhoClaimsToWaitForItselfIsStuck) {
  Arrive(1, 5, 2);
  Turn();
  Done(2, 1);
  for (int i = 0; i < 20 && ActionsOf<CloseWorker>().empty(); ++i) {
    now_ += milliseconds(250);
    BeatWaiting(1, "w1");
    BeatWaiting(2, "w1");
    BeatWaiting(3, "");
    Turn();
  }
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_EQ(ActionsOf<CloseWorker>()[0].link, LinkKey(1));
}

// Both ranks beat and neither gets on; the one that waits for the other is not to blame.
TEST_F(EngineRanksTest, TheRankThatOthersWaitForIsStuck) {
  Arrive(1, 5, 2);
  Turn();
  for (int i = 0; i < 20 && ActionsOf<CloseWorker>().empty(); ++i) {
    now_ += milliseconds(250);
    BeatWaiting(1, "w2");
    BeatWaiting(2, "");
    BeatWaiting(3, "");
    Turn();
  }
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_EQ(ActionsOf<CloseWorker>()[0].link, LinkKey(2));
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("worker w2 (stage 0 rank 1) was lost"));
}

}  // namespace
}  // namespace tutti::coordinator
