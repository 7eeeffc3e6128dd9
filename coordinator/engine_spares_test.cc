// Idle workers load ahead, and take the place of one that is lost with what they have loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class EngineSparesTest : public EngineTest {
 protected:
  // The assignments sent to a worker since actions_ was cleared.
  std::vector<v1::Frame> AssignedTo(uint64_t link) {
    std::vector<v1::Frame> frames;
    for (const SendToWorker& send : ActionsOf<SendToWorker>()) {
      if (send.link == LinkKey(link) && send.frame.has_assign_shard()) frames.push_back(send.frame);
    }
    return frames;
  }
  // Two stages serve, and w3 is idle. The frame that w3 got.
  v1::Frame ServeWithSpare() {
    EngineOptions options = TinyEngineOptions(2);
    Serve(options, 2);
    actions_.clear();
    Join(3, "w3");
    Turn();
    const std::vector<v1::Frame> frames = AssignedTo(3);
    EXPECT_EQ(frames.size(), 1u);
    return frames.empty() ? v1::Frame() : frames[0];
  }
};

TEST_F(EngineSparesTest, AnIdleWorkerLoadsTheShardThatIsLargest) {
  const v1::Frame frame = ServeWithSpare();
  const v1::AssignShard& shard = frame.assign_shard();
  EXPECT_TRUE(shard.standby());
  const v1::PipelineStatus pipeline = Status().pipelines(0);
  const int other = 1 - shard.stage();
  EXPECT_GE(pipeline.stages(shard.stage()).predicted().weights(),
            pipeline.stages(other).predicted().weights());
  EXPECT_THAT(Status().idle_workers(0).standby(), HasSubstr("of pipeline 0, 0 % loaded"));
  Ready(3, frame.epoch());
  EXPECT_THAT(Status().idle_workers(0).standby(), HasSubstr("of pipeline 0, loaded"));
  EXPECT_EQ(Status().pipelines(0).state(), "serving");
  EXPECT_THAT(ActionsOf<CloseWorker>(), IsEmpty());
}

TEST_F(EngineSparesTest, TheSpareGetsTheSameShardWhenItsHolderIsLost) {
  const v1::Frame frame = ServeWithSpare();
  Ready(3, frame.epoch());
  actions_.clear();
  const auto holder = static_cast<uint64_t>(frame.assign_shard().stage()) + 1;
  Give(WorkerLost{LinkKey(holder), absl::UnavailableError("gone")});
  Turn();
  const std::vector<v1::Frame> frames = AssignedTo(3);
  ASSERT_EQ(frames.size(), 1u);
  v1::AssignShard standby = frame.assign_shard();
  v1::AssignShard served = frames[0].assign_shard();
  EXPECT_FALSE(served.standby());
  EXPECT_GT(frames[0].epoch(), frame.epoch());
  standby.clear_standby();
  for (v1::AssignShard* shard : {&standby, &served}) {
    shard->clear_next_worker_ids();
    shard->clear_previous_worker_id();
  }
  EXPECT_EQ(standby.SerializeAsString(), served.SerializeAsString());
}

TEST_F(EngineSparesTest, SpareSharesAreDealtOut) {
  const v1::Frame first = ServeWithSpare();
  Join(4, "w4");
  Turn();
  const std::vector<v1::Frame> frames = AssignedTo(4);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_NE(frames[0].assign_shard().stage(), first.assign_shard().stage());
  EXPECT_EQ(AssignedTo(3).size(), 1u) << "what is loaded stays";
}

TEST_F(EngineSparesTest, WhoStandsByMaySayNothingOfSteps) {
  const v1::Frame frame = ServeWithSpare();
  v1::Frame wrong;
  wrong.set_epoch(frame.epoch());
  wrong.mutable_step_done()->set_step(1);
  Send(3, wrong);
  ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u);
  EXPECT_THAT(std::string(ActionsOf<CloseWorker>()[0].reason.message()), HasSubstr("stands by"));
  EXPECT_EQ(Status().pipelines(0).state(), "serving");
}

}  // namespace
}  // namespace tutti::coordinator
