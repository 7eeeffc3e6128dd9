// Executors alone and in a chain of stages: joining, beating, stopping, and links that break.
#include "worker/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "worker/executor_testing.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

TEST_F(ExecutorTest, JoinsAndBeatsWhileIdle) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  EXPECT_EQ(joined->hello.worker_id(), "w0");
  EXPECT_EQ(joined->hello.purpose(), v1::LINK_PURPOSE_CONTROL);
  for (int i = 0; i < 3; ++i) {
    const v1::Frame beat = joined->recorder->Await(v1::Frame::kBeat);
    EXPECT_GT(beat.beat().resident_bytes(), 0);
  }
}

TEST_F(ExecutorTest, ThreeWorkersMakeARing) {
  std::vector<std::unique_ptr<Executor>> workers;
  std::vector<std::unique_ptr<FakeCoordinator::Joined>> joined;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(StartWorker("w" + std::to_string(i)));
    joined.push_back(coordinator_.Welcome());
  }
  // The first stage begins while the others know nothing yet: its activations wait.
  joined[0]->Send(Assign(1, 0, 3));
  joined[0]->recorder->Await(v1::Frame::kShardReady);
  joined[0]->Send(PlanFrame(1, 1, {1, 2, 3, 4, 5}));
  joined[0]->recorder->Await(v1::Frame::kStepDone);
  for (int i : {2, 1}) {
    joined[i]->Send(Assign(1, i, 3));
    joined[i]->recorder->Await(v1::Frame::kShardReady);
    joined[i]->Send(PlanFrame(1, 1, {1, 2, 3, 4, 5}));
  }
  EXPECT_EQ(joined[2]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(), 8);
  for (uint64_t step = 2; step < 12; ++step) {
    for (auto& worker : joined) worker->Send(PlanFrame(1, step, {static_cast<int>(step)}));
  }
  for (uint64_t step = 2; step < 12; ++step) {
    const v1::Frame result = joined[2]->recorder->Await(v1::Frame::kStepResult);
    EXPECT_EQ(result.step_result().step(), step);
    EXPECT_EQ(result.step_result().sampled(0).token(), static_cast<int>(step) + 3);
  }
  // The pipeline forms again, the other way round.
  for (int i = 0; i < 3; ++i) {
    v1::Frame frame = Assign(2, 2 - i, 3);
    v1::AssignShard* shard = frame.mutable_assign_shard();
    if (i < 2) shard->set_previous_worker_id("w" + std::to_string(i + 1));
    shard->clear_next_worker_ids();
    if (i > 0) shard->add_next_worker_ids("w" + std::to_string(i - 1));
    joined[i]->Send(frame);
  }
  for (auto& worker : joined) worker->Send(PlanFrame(2, 1, {30}));
  EXPECT_EQ(joined[0]->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(),
            33);
}

TEST_F(ExecutorTest, ComesBackToACoordinatorThatWasAway) {
  network_.StopListening("coordinator");
  auto worker = StartWorker("w0");
  coordinator_.Listen();
  auto first = coordinator_.Welcome();
  first->Send(Assign(7, 0, 1));
  first->recorder->Await(v1::Frame::kShardReady);
  first->link->Close(absl::UnavailableError("restarting"));
  auto second = coordinator_.Welcome();
  // A new coordinator counts from 1; the weights are still there.
  second->Send(Assign(1, 0, 1));
  second->recorder->Await(v1::Frame::kShardReady);
  EXPECT_EQ(alive_, 1);
  second->Send(PlanFrame(1, 1, {4}));
  EXPECT_EQ(second->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(), 5);
}

TEST_F(ExecutorTest, TriesAgainAfterBeingRefused) {
  auto worker = StartWorker("w0");
  FakeCoordinator::Joined refused = coordinator_.Accept();
  refused.link->Close(absl::FailedPreconditionError("build of the worker is \"build\""));
  auto joined = coordinator_.Welcome();
  joined->recorder->Await(v1::Frame::kBeat);
}

TEST_F(ExecutorTest, AStuckExecutorDoesNotBeat) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome(10);
  joined->Send(Assign(1, 0, 1));
  joined->recorder->Await(v1::Frame::kShardReady);
  gate_.Close();
  joined->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  // Frames sent before it got stuck arrive before the answer to this one could.
  const size_t before = joined->recorder->Count(v1::Frame::kBeat);
  auto other = StartWorker("w1");
  auto witness = coordinator_.Welcome(10);
  for (int i = 0; i < 10; ++i) witness->recorder->Await(v1::Frame::kBeat);
  EXPECT_LE(joined->recorder->Count(v1::Frame::kBeat), before + 1);
  gate_.Open();
  joined->recorder->Await(v1::Frame::kStepResult);
  joined->recorder->Await(v1::Frame::kBeat);
}

TEST_F(ExecutorTest, StopFinishesTheStep) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(1, 0, 1));
  gate_.Close();
  joined->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  worker->RequestStop();
  EXPECT_FALSE(worker->WaitStopped(std::chrono::milliseconds(1)));
  gate_.Open();
  EXPECT_TRUE(worker->WaitStopped(kPatience));
  joined->recorder->Await(v1::Frame::kStepResult);
  EXPECT_EQ(joined->recorder->AwaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ExecutorTest, TurnsStrangersAwayByName) {
  auto worker = StartWorker("w1");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(5, 1, 2));
  joined->recorder->Await(v1::Frame::kShardReady);
  const auto says = [&](uint64_t epoch, const std::function<void(v1::Hello*)>& change) {
    return Knock("at-w1", epoch, change).ToString();
  };
  EXPECT_THAT(says(5, [](auto* h) { h->set_worker_id("w2"); }),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("\"w2\""), HasSubstr("\"w0\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_cluster_id("else"); }),
              AllOf(HasSubstr("cluster id"), HasSubstr("\"else\""), HasSubstr("\"cluster\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_build("old"); }),
              AllOf(HasSubstr("build"), HasSubstr("\"old\""), HasSubstr("\"build\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_protocol_version(9); }),
              AllOf(HasSubstr("protocol version"), HasSubstr("\"9\""), HasSubstr("\"1\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_model_fingerprint("other"); }),
              HasSubstr("model fingerprint"));
  EXPECT_THAT(says(5, [](auto* h) { h->set_purpose(v1::LINK_PURPOSE_CONTROL); }),
              HasSubstr("hello.purpose"));
  EXPECT_THAT(says(4, [](auto*) {}), HasSubstr("epoch 4 is over; it is 5"));
  EXPECT_THAT(says(6, [](auto*) {}),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("epoch 6 has not begun here")));
  auto recorder = std::make_shared<Recorder>();
  auto link = dialer_->Dial("at-w1", std::make_unique<RecordingHandler>(recorder));
  EXPECT_EQ(link->Send(PlanFrame(5, 1, {1})), absl::OkStatus());
  EXPECT_THAT(recorder->AwaitClosed().ToString(), HasSubstr("must be hello"));
  // None of the above disturbed the worker.
  EXPECT_EQ(joined->recorder->Count(v1::Frame::kFailure), 0u);
}

TEST_F(ExecutorTest, ANextStageNotInTheTableIsAFailure) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  v1::Frame frame = Assign(1, 0, 2);
  frame.mutable_assign_shard()->set_next_worker_ids(0, "stranger");
  joined->Send(frame);
  EXPECT_THAT(joined->recorder->Await(v1::Frame::kFailure).failure().message(),
              AllOf(HasSubstr("\"stranger\""), HasSubstr("w0, w1, w2, w3")));
}

TEST_F(ExecutorTest, ABrokenActivationLinkIsReportedWhenTheEpochGoesOn) {
  auto first = StartWorker("w0");
  auto first_joined = coordinator_.Welcome();
  auto second = StartWorker("w1");
  auto second_joined = coordinator_.Welcome();
  second_joined->Send(Assign(1, 1, 2));
  first_joined->Send(Assign(1, 0, 2));
  for (auto* joined : {first_joined.get(), second_joined.get()}) {
    joined->Send(PlanFrame(1, 1, {1}));
  }
  second_joined->recorder->Await(v1::Frame::kStepResult);
  second.reset();
  EXPECT_THAT(first_joined->recorder->Await(v1::Frame::kFailure).failure().message(),
              HasSubstr("activation link to w1 at at-w1"));
}

}  // namespace
}  // namespace tutti::worker
