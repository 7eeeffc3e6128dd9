// Workers that were told to stop: they serve until nothing needs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/retry_delay.h"
#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class EngineLeavingTest : public EngineTest {
 protected:
  void Leave(uint64_t link) {
    v1::Frame frame;
    frame.mutable_leaving()->set_grace_ms(10'000);
    Send(link, frame);
    Turn();
  }
  // The only worker of the epoch samples one token of the only sequence.
  void Step(uint64_t link, uint64_t epoch, uint64_t step, uint64_t sequence, int32_t position) {
    v1::Frame frame = ResultFrame(epoch, step);
    v1::SampledToken* const sampled = frame.mutable_step_result()->add_sampled();
    sampled->set_sequence(sequence);
    sampled->set_position(position);
    Send(link, frame);
    Turn();
  }
  std::vector<uint64_t> LetGo() {
    std::vector<uint64_t> links;
    for (const CloseWorker& close : ActionsOf<CloseWorker>()) links.push_back(close.link.value());
    return links;
  }
};

TEST_F(EngineLeavingTest, AnIdleWorkerIsLetGoAtOnce) {
  Serve(TinyEngineOptions(1), 1);
  Join(2, "w2");
  Turn();
  actions_.clear();
  Leave(2);
  EXPECT_THAT(LetGo(), testing::ElementsAre(2));
  EXPECT_TRUE(Status().serving());
}

TEST_F(EngineLeavingTest, AStreamEndsBeforeItsWorkerIsLetGo) {
  Serve(TinyEngineOptions(1), 1);
  Arrive(1, 5, 2);
  Turn();
  actions_.clear();
  Leave(1);
  EXPECT_THAT(LetGo(), IsEmpty());
  EXPECT_FALSE(Status().serving()) << "for new requests";
  EXPECT_THAT(Status().why_not_serving(),
              HasSubstr("worker w1 (stage 0) is leaving, and no other can take its place"));
  ASSERT_EQ(ActionsOf<ServingChanged>().size(), 1u);
  Arrive(2, 5, 2);
  ASSERT_EQ(ActionsOf<FinishRequest>().size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(ActionsOf<FinishRequest>()[0].status));
  EXPECT_TRUE(RetryDelayOf(ActionsOf<FinishRequest>()[0].status).has_value())
      << "it may come again";
  Step(1, epoch(), 1, 1, 5);
  EXPECT_THAT(LetGo(), IsEmpty());
  Step(1, epoch(), 2, 1, 6);
  EXPECT_TRUE(ActionsOf<FinishRequest>().at(1).status.ok());
  EXPECT_THAT(LetGo(), testing::ElementsAre(1));
}

TEST_F(EngineLeavingTest, RequestsThatWereTakenAreServedWhereNobodyElseCan) {
  EngineOptions options = TinyEngineOptions(1);
  options.max_sequences = 1;
  Serve(options, 1);
  Arrive(1, 5, 1);
  Arrive(2, 5, 1);
  Turn();
  ASSERT_EQ(Status().waiting(), 1);
  actions_.clear();
  Leave(1);
  Step(1, epoch(), 1, 1, 5);
  EXPECT_THAT(LetGo(), IsEmpty()) << "the second has begun";
  Step(1, epoch(), 2, 2, 5);
  EXPECT_EQ(ActionsOf<FinishRequest>().size(), 2u);
  EXPECT_THAT(LetGo(), testing::ElementsAre(1));
}

TEST_F(EngineLeavingTest, NewRequestsGoToAnotherPipeline) {
  EngineOptions options = TinyEngineOptions(1);
  options.num_pipelines = 2;
  Serve(options, 2);
  Arrive(1, 5, 5);
  Turn();
  ASSERT_EQ(Status().pipelines(0).running(), 1);
  Leave(1);
  EXPECT_TRUE(Status().serving());
  for (uint64_t id = 2; id <= 4; ++id) Arrive(id, 5, 5);
  Turn();
  EXPECT_EQ(Status().pipelines(0).running(), 1);
  EXPECT_EQ(Status().pipelines(1).running(), 3);
}

// New requests wait for the pipeline that forms with the spare, and are not lost with the old one.
TEST_F(EngineLeavingTest, ASpareTakesThePlace) {
  Serve(TinyEngineOptions(1), 1);
  Join(2, "w2");
  Turn();
  Arrive(1, 5, 1);
  Turn();
  actions_.clear();
  Leave(1);
  EXPECT_TRUE(Status().serving()) << "requests are taken";
  Arrive(2, 5, 1);
  Turn();
  EXPECT_EQ(Status().waiting(), 1);
  Step(1, epoch(), 1, 1, 5);
  EXPECT_THAT(LetGo(), testing::ElementsAre(1));
  EXPECT_EQ(Status().pipelines(0).stages(0).worker().worker_id(), "w2");
  EXPECT_EQ(Status().waiting(), 1);
  Ready(2);
  Turn();
  EXPECT_EQ(Status().pipelines(0).running(), 1);
}

// Its pipeline ends because another worker is gone.
TEST_F(EngineLeavingTest, OneWhosePipelineIsLostIsLetGo) {
  Serve(TinyEngineOptions(2), 2);
  Arrive(1, 5, 2);
  Turn();
  Leave(1);
  actions_.clear();
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  EXPECT_THAT(LetGo(), testing::ElementsAre(1));
}

TEST_F(EngineLeavingTest, APipelineThatLoadsBeginsAgainWithoutIt) {
  Start(TinyEngineOptions(1));
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  actions_.clear();
  Leave(1);
  EXPECT_THAT(LetGo(), testing::ElementsAre(1));
  EXPECT_EQ(Status().pipelines(0).stages(0).worker().worker_id(), "w2");
}

// All processes of a pod are told at once, in any order.
TEST_F(EngineLeavingTest, ACoordinatorThatDrainsLetsWorkersGoAfterTheLastStream) {
  for (const bool drain_first : {true, false}) {
    Serve(TinyEngineOptions(1), 1);
    Join(2, "w2");
    Turn();
    Arrive(1, 5, 1);
    Turn();
    actions_.clear();
    if (drain_first) Give(DrainRequested{});
    Leave(1);
    Leave(2);
    if (!drain_first) Give(DrainRequested{});
    Turn();
    EXPECT_THAT(LetGo(), testing::ElementsAre(2)) << "the spare";
    EXPECT_THAT(ActionsOf<FinishRequest>(), IsEmpty());
    Step(1, epoch(), 1, 1, 5);
    EXPECT_TRUE(ActionsOf<FinishRequest>().at(0).status.ok());
    EXPECT_THAT(LetGo(), testing::ElementsAre(2, 1));
  }
}

TEST_F(EngineLeavingTest, WhenTheTimeIsOverStreamsEndWithAReason) {
  Serve(TinyEngineOptions(1), 1);
  Arrive(1, 5, 5);
  Turn();
  actions_.clear();
  Give(DrainRequested{});
  Give(EndRequested{});
  Turn();
  ASSERT_EQ(ActionsOf<FinishRequest>().size(), 1u);
  const absl::Status status = ActionsOf<FinishRequest>()[0].status;
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the service is shutting down"));
  EXPECT_EQ(RetryDelayOf(status), kRetryDelayUnknown);
  EXPECT_EQ(Status().pipelines(0).blocks_in_use(), 0);
}

// ---- drained by an operator

TEST_F(EngineLeavingTest, ADrainedWorkersStreamsGoOnWithTheSpareAtOnce) {
  Serve(TinyEngineOptions(1), 1);
  Join(2, "w2");
  Arrive(1, 5, 5);
  Turn();
  actions_.clear();
  const auto state = engine_->DrainWorker("w1", /*undo=*/false, now_, &actions_);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(*state, HasSubstr("its streams go on"));
  Turn();
  EXPECT_THAT(ActionsOf<FinishRequest>(), IsEmpty());
  EXPECT_THAT(LetGo(), IsEmpty()) << "it stays linked";
  Ready(2, Status().pipelines(0).epoch());
  Turn();
  EXPECT_EQ(Status().pipelines(0).running(), 1);
  EXPECT_EQ(Status().pipelines(0).stages(0).worker().worker_id(), "w2");
  EXPECT_EQ(Status().idle_workers(0).standby(), "drained");
}

TEST_F(EngineLeavingTest, ADrainedWorkerWithoutASpareServesOnUntilItIsUndone) {
  Serve(TinyEngineOptions(1), 1);
  Arrive(1, 5, 5);
  Turn();
  actions_.clear();
  ASSERT_TRUE(engine_->DrainWorker("w1", /*undo=*/false, now_, &actions_).ok());
  Turn();
  EXPECT_EQ(Status().pipelines(0).running(), 1);
  EXPECT_FALSE(Status().serving()) << "for new requests";
  ASSERT_TRUE(engine_->DrainWorker("w1", /*undo=*/true, now_, &actions_).ok());
  Turn();
  EXPECT_TRUE(Status().serving());
  EXPECT_EQ(Status().pipelines(0).running(), 1);
  EXPECT_TRUE(
      absl::IsNotFound(engine_->DrainWorker("w9", /*undo=*/false, now_, &actions_).status()));
}

TEST_F(EngineLeavingTest, ADrainedWorkerStaysDrainedWhenItComesBack) {
  Serve(TinyEngineOptions(1), 1);
  Join(2, "w2");
  Turn();
  ASSERT_TRUE(engine_->DrainWorker("w2", /*undo=*/false, now_, &actions_).ok());
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Join(3, "w2");
  Turn();
  EXPECT_EQ(Status().idle_workers(0).standby(), "drained");
}

}  // namespace
}  // namespace tutti::coordinator
