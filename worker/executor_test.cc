// Executors alone and in a chain of stages: joining, beating, stopping, and links that break.
#include "worker/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/epochs.h"
#include "transport/crc32c.h"
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

// The executor is within a step for as long as the test likes.
TEST_F(ExecutorTest, BeatsWhileAStepTakesLong) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(1, 0, 1));
  joined->recorder->Await(v1::Frame::kShardReady);
  gate_.Close();
  joined->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  uint64_t progress = 0;
  int64_t unmoved_us = 0;
  for (int beats = 0; beats < 3;) {
    const v1::Beat beat = joined->recorder->Await(v1::Frame::kBeat).beat();
    if (beat.activity() != "computing a step") continue;  // of before
    EXPECT_GE(beat.allowed_us(), 1'000'000);
    if (++beats > 1) {
      EXPECT_EQ(beat.progress(), progress);
    }
    EXPECT_GE(beat.unmoved_us(), unmoved_us);
    progress = beat.progress();
    unmoved_us = beat.unmoved_us();
  }
  EXPECT_GT(unmoved_us, 0);
  gate_.Open();
  joined->recorder->Await(v1::Frame::kStepResult);
  while (joined->recorder->Await(v1::Frame::kBeat).beat().progress() == progress) continue;
}

TEST_F(ExecutorTest, BeatsSayThatTheDraftModelIsAtWork) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  v1::Frame assign = Assign(1, 0, 1);
  assign.mutable_assign_shard()->set_draft(true);
  joined->Send(assign);
  joined->recorder->Await(v1::Frame::kShardReady);
  gate_.Close();
  v1::Frame plan = PlanFrame(1, 1, {1});
  plan.mutable_step_plan()->mutable_scheduled(0)->set_drafts(2);
  joined->Send(plan);
  gate_.AwaitSomeoneWaiting();
  v1::Beat beat;
  while (beat.activity() != "computing with its draft model") {
    beat = joined->recorder->Await(v1::Frame::kBeat).beat();
  }
  EXPECT_GE(beat.allowed_us(), 1'000'000);
  gate_.Open();
  const v1::Frame result = joined->recorder->Await(v1::Frame::kStepResult);
  EXPECT_THAT(result.step_result().drafted(0).tokens(), testing::ElementsAre(3, 4));
}

// Over a slow link the rows of a step come for longer than a worker may stand still.
TEST_F(ExecutorTest, RowsThatComeAreProgress) {
  auto worker = StartWorker("w1");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(1, 1, 2));
  joined->recorder->Await(v1::Frame::kShardReady);
  auto recorder = std::make_shared<Recorder>();
  auto link = dialer_->Dial("unix:at-w1", std::make_unique<RecordingHandler>(recorder));
  v1::Frame hello;
  hello.set_epoch(1);
  hello.mutable_hello()->set_protocol_version(1);
  hello.mutable_hello()->set_cluster_id("cluster");
  hello.mutable_hello()->set_worker_id("w0");
  hello.mutable_hello()->set_build("build");
  hello.mutable_hello()->set_model_fingerprint("model");
  hello.mutable_hello()->set_purpose(v1::LINK_PURPOSE_ACTIVATION);
  EXPECT_EQ(link->Send(std::move(hello)), absl::OkStatus());
  recorder->Await(v1::Frame::kWelcome);
  const auto progress = [&] {
    return joined->recorder->Await(v1::Frame::kBeat).beat().progress();
  };
  // Beats of before, while it loaded, may lie there still.
  uint64_t before = progress();
  for (int same = 0; same < 5; ++same) {
    if (const uint64_t now = progress(); now != before) before = now, same = 0;
  }
  // The first of two rows; the step cannot begin.
  const std::vector<std::byte> row(kRowBytes);
  v1::Frame rows;
  rows.set_epoch(1);
  v1::Activation* chunk = rows.mutable_activation();
  chunk->set_step(1);
  chunk->set_rows(1);
  chunk->set_total_rows(2);
  chunk->set_row_bytes(kRowBytes);
  chunk->set_checksum(transport::Crc32c(row));
  transport::Payload payload;
  payload.chunks = {row};
  EXPECT_EQ(link->Send(std::move(rows), std::move(payload)), absl::OkStatus());
  bool moved = false;
  for (int beats = 0; beats < 100 && !moved; ++beats) moved = progress() != before;
  EXPECT_TRUE(moved);
  EXPECT_EQ(joined->recorder->Count(v1::Frame::kFailure), 0u);
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

// A welcome of a coordinator that leads as `incarnation`.
v1::Frame WelcomeOf(uint32_t incarnation) {
  v1::Frame frame;
  frame.mutable_welcome()->set_beat_interval_ms(20);
  frame.mutable_welcome()->set_incarnation(incarnation);
  return frame;
}

TEST_F(ExecutorTest, JoinsWhicheverCoordinatorLeadsAndLeavesTheOtherAlone) {
  FakeCoordinator other(&network_, "other");
  auto worker = StartWorker("w0");
  FakeCoordinator::Joined standing_by = coordinator_.Accept();
  auto joined = other.Welcome(20, 7);
  EXPECT_EQ(standing_by.recorder->AwaitClosed().message(), "this worker has found who leads");
  joined->Send(Assign(EpochBefore(7).value() + 1, 0, 1));
  joined->recorder->Await(v1::Frame::kShardReady);
  EXPECT_EQ(standing_by.recorder->Count(v1::Frame::kBeat), 0u);
}

TEST_F(ExecutorTest, ObeysNoCoordinatorOfALowerNumberThanOneThatItHasObeyed) {
  FakeCoordinator other(&network_, "other");
  auto worker = StartWorker("w0");
  FakeCoordinator::Joined waits = coordinator_.Accept();
  EXPECT_EQ(waits.hello.incarnation(), 0u);
  auto first = other.Welcome(20, 7);
  first->Send(Assign(EpochBefore(7).value() + 3, 0, 1));
  first->recorder->Await(v1::Frame::kShardReady);
  network_.StopListening("other");
  first->link->Close(absl::UnavailableError("killed"));
  // One that led before and wakes up.
  FakeCoordinator::Joined stale = coordinator_.Accept();
  EXPECT_EQ(stale.hello.incarnation(), 7u);
  stale.Send(WelcomeOf(6));
  const absl::Status refused = stale.recorder->AwaitClosed();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("it is coordinator number 6, and worker \"w0\" has obeyed number 7"));
  auto second = coordinator_.Welcome(20, 8);
  second->Send(Assign(EpochBefore(8).value() + 1, 0, 1));
  second->recorder->Await(v1::Frame::kShardReady);
  EXPECT_EQ(alive_, 1) << "the weights stay";
}

TEST_F(ExecutorTest, TriesAgainAfterBeingRefused) {
  auto worker = StartWorker("w0");
  FakeCoordinator::Joined refused = coordinator_.Accept();
  refused.link->Close(absl::FailedPreconditionError("build of the worker is \"build\""));
  auto joined = coordinator_.Welcome();
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
    return Knock("unix:at-w1", epoch, change).ToString();
  };
  EXPECT_THAT(says(5, [](auto* h) { h->set_worker_id("w2"); }),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("\"w2\""), HasSubstr("\"w0\"")));
  EXPECT_THAT(says(5, [](auto* h) { h->set_cluster_id("else"); }),
              AllOf(HasSubstr("cluster id"), HasSubstr("\"else\""), HasSubstr("\"cluster\"")));
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
  auto link = dialer_->Dial("unix:at-w1", std::make_unique<RecordingHandler>(recorder));
  EXPECT_EQ(link->Send(PlanFrame(5, 1, {1})), absl::OkStatus());
  EXPECT_THAT(recorder->AwaitClosed().ToString(), HasSubstr("must be hello"));
  // None of the above disturbed the worker.
  EXPECT_EQ(joined->recorder->Count(v1::Frame::kFailure), 0u);
}

// The mailbox is shared by all links: once, what strangers had sent during a step closed the
// coordinator's.
TEST_F(ExecutorTest, AFloodOfStrangersDuringAStepEndsNobodyElsesLink) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(1, 0, 1));
  gate_.Close();
  joined->Send(PlanFrame(1, 1, {1}));
  gate_.AwaitSomeoneWaiting();
  auto dialer = network_.MakeDialer();
  std::vector<std::unique_ptr<transport::Link>> strangers;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int64_t i = 0; i < 2 * kAcceptedLinksKept; ++i) {
    recorders.push_back(std::make_shared<Recorder>());
    strangers.push_back(
        dialer->Dial("unix:at-w0", std::make_unique<RecordingHandler>(recorders.back())));
    v1::Frame frame;
    frame.mutable_beat();
    // Refused from the second half on, because the worker knows of too many already.
    for (int j = 0; j < 50 && strangers.back()->Send(frame).ok(); ++j) continue;
  }
  EXPECT_EQ(recorders.back()->AwaitClosed().code(), absl::StatusCode::kResourceExhausted);
  joined->Send(PlanFrame(1, 2, {1}));
  gate_.Open();
  joined->recorder->Await(v1::Frame::kStepResult);
  joined->recorder->Await(v1::Frame::kStepResult);
  // Their places are free again.
  EXPECT_EQ(recorders.front()->AwaitClosed().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Knock("unix:at-w0", 1, [](auto* h) { h->set_worker_id("w2"); }).ToString(),
              HasSubstr("PERMISSION_DENIED"));
}

// The coordinator is told which link it is before it is told that the shard cannot go on.
TEST_F(ExecutorTest, ANextStageNotInTheTableIsALinkThatFails) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  v1::Frame frame = Assign(1, 0, 2);
  frame.mutable_assign_shard()->set_next_worker_ids(0, "stranger");
  joined->Send(frame);
  const v1::Frame said = joined->recorder->Await(v1::Frame::kLinkState);
  EXPECT_EQ(said.epoch(), 1u);
  EXPECT_EQ(said.link_state().worker_id(), "stranger");
  EXPECT_EQ(said.link_state().purpose(), v1::LINK_PURPOSE_ACTIVATION);
  EXPECT_FALSE(said.link_state().up());
  EXPECT_THAT(said.link_state().error(),
              AllOf(HasSubstr("\"stranger\""), HasSubstr("w0, w1, w2, w3")));
  EXPECT_THAT(joined->recorder->Await(v1::Frame::kFailure).failure().message(),
              AllOf(HasSubstr("\"stranger\""), HasSubstr("w0, w1, w2, w3")));
}

TEST_F(ExecutorTest, LinksAreReportedAsTheyComeUp) {
  auto first = StartWorker("w0");
  auto first_joined = coordinator_.Welcome();
  first_joined->Send(Assign(1, 0, 2));
  const v1::LinkState down = first_joined->recorder->Await(v1::Frame::kLinkState).link_state();
  EXPECT_FALSE(down.up());
  EXPECT_THAT(down.error(), HasSubstr("at-w1")) << "nobody listens there";
  auto second = StartWorker("w1");
  auto second_joined = coordinator_.Welcome();
  second_joined->Send(Assign(1, 1, 2));
  v1::LinkState state;
  while (!state.up()) state = first_joined->recorder->Await(v1::Frame::kLinkState).link_state();
  EXPECT_EQ(state.worker_id(), "w1");
  EXPECT_EQ(state.error(), "");
}

TEST_F(ExecutorTest, OneThatLeavesServesUntilItIsLetGo) {
  auto worker = StartWorker("w0");
  auto joined = coordinator_.Welcome();
  joined->Send(Assign(1, 0, 1));
  joined->recorder->Await(v1::Frame::kShardReady);
  worker->RequestLeave(std::chrono::seconds(7));
  EXPECT_EQ(joined->recorder->Await(v1::Frame::kLeaving).leaving().grace_ms(), 7000u);
  joined->Send(PlanFrame(1, 1, {4}));
  EXPECT_EQ(joined->recorder->Await(v1::Frame::kStepResult).step_result().sampled(0).token(), 5);
  EXPECT_FALSE(worker->WaitStopped(std::chrono::milliseconds(1)));
  joined->link->Close(absl::UnavailableError("nothing needs it"));
  EXPECT_TRUE(worker->WaitStopped(kPatience));
}

TEST_F(ExecutorTest, OneThatLeavesNobodyEndsAtOnce) {
  network_.StopListening("coordinator");
  auto worker = StartWorker("w0");
  worker->RequestLeave(std::chrono::seconds(7));
  EXPECT_TRUE(worker->WaitStopped(kPatience));
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
              HasSubstr("activation link to w1 at unix:at-w1"));
}

}  // namespace
}  // namespace tutti::worker
