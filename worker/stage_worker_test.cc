#include "worker/stage_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/epochs.h"
#include "transport/crc32c.h"
#include "worker/limits.h"
#include "worker/runner_testing.h"

namespace tutti::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Sent {
  v1::Frame frame;
  transport::Payload payload;
};

class RecordingOutbox : public StageOutbox {
 public:
  void ToCoordinator(v1::Frame frame) override { to_coordinator.push_back(std::move(frame)); }
  void ToNextStage(v1::Frame frame, transport::Payload payload) override {
    to_next.push_back({std::move(frame), std::move(payload)});
  }
  v1::Frame Pop() {
    EXPECT_FALSE(to_coordinator.empty());
    if (to_coordinator.empty()) return {};
    v1::Frame frame = std::move(to_coordinator.front());
    to_coordinator.pop_front();
    return frame;
  }
  std::deque<v1::Frame> to_coordinator;
  std::deque<Sent> to_next;
};

class StageWorkerTest : public ::testing::Test {
 protected:
  struct Stage {
    RecordingOutbox outbox;
    std::unique_ptr<StageWorker> worker;
  };

  Stage& AddStage() {
    stages_.push_back(std::make_unique<Stage>());
    Stage& stage = *stages_.back();
    const auto factory = [this](const v1::AssignShard& shard, const ShardProgressCallback& progress)
        -> absl::StatusOr<std::unique_ptr<StageRunner>> {
      ++loads_;
      for (int64_t loaded = 0; loaded <= 1000; ++loaded) progress(loaded, 1000);
      if (shard.num_layers() == 99) return absl::NotFoundError("no layer 99");
      return std::make_unique<CountingRunner>(shard, &alive_);
    };
    stage.worker = std::make_unique<StageWorker>(factory, &stage.outbox, &clock_);
    return stage;
  }

  Stage& AddLoadedStage(uint64_t epoch, int32_t stage, int32_t stages) {
    Stage& added = AddStage();
    added.worker->OnCoordinatorFrame(AssignFrame(epoch, stage, stages));
    EXPECT_EQ(added.worker->status(), absl::OkStatus());
    added.outbox.to_coordinator.clear();
    return added;
  }

  static void Pass(Stage& from, Stage& to) {
    for (Sent& sent : from.outbox.to_next) {
      to.worker->OnActivationFrame(std::move(sent.frame), std::move(sent.payload));
    }
    from.outbox.to_next.clear();
  }

  ManualClock clock_;
  std::atomic<int> alive_ = 0;
  int loads_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
};

TEST_F(StageWorkerTest, LoadsReportsAndServesAlone) {
  Stage& stage = AddStage();
  EXPECT_EQ(stage.worker->epoch(), Epoch());
  stage.worker->OnCoordinatorFrame(AssignFrame(5, 0, 1));
  // One report per percent, for any number of tensors.
  ASSERT_EQ(stage.outbox.to_coordinator.size(), 102u);
  for (const v1::Frame& frame : stage.outbox.to_coordinator) EXPECT_EQ(frame.epoch(), 5u);
  EXPECT_EQ(stage.outbox.to_coordinator.back().shard_ready().kv_bytes(), 2);
  stage.outbox.to_coordinator.clear();
  EXPECT_EQ(stage.worker->epoch(), Epoch(5));

  EXPECT_FALSE(stage.worker->RunOneStep({}));
  stage.worker->OnCoordinatorFrame(PlanFrame(5, 1, {40, 41}));
  const uint64_t before = stage.worker->progress_count();
  int beats = 0;
  EXPECT_TRUE(stage.worker->RunOneStep([&] { ++beats; }));
  EXPECT_EQ(beats, 2);
  EXPECT_EQ(stage.worker->progress_count(), before + 3);
  const v1::Frame result = stage.outbox.Pop();
  EXPECT_EQ(result.epoch(), 5u);
  ASSERT_EQ(result.step_result().sampled_size(), 1);
  EXPECT_EQ(result.step_result().sampled(0).token(), 42);
  EXPECT_EQ(result.step_result().done().step(), 1u);
  EXPECT_TRUE(stage.outbox.to_next.empty());
  EXPECT_FALSE(stage.worker->RunOneStep({}));
}

TEST_F(StageWorkerTest, AChainPassesActivationsInChunks) {
  Stage& a = AddLoadedStage(3, 0, 3);
  Stage& b = AddLoadedStage(3, 1, 3);
  Stage& c = AddLoadedStage(3, 2, 3);
  for (Stage* stage : {&a, &b, &c}) {
    stage->worker->OnCoordinatorFrame(PlanFrame(3, 1, {1, 2, 3, 4, 5}));
    stage->worker->OnCoordinatorFrame(PlanFrame(3, 2, {10}));
  }
  EXPECT_FALSE(b.worker->RunOneStep({}));
  clock_.Advance(std::chrono::milliseconds(3));
  EXPECT_TRUE(a.worker->RunOneStep({}));
  EXPECT_TRUE(a.worker->RunOneStep({}));
  EXPECT_FALSE(a.worker->RunOneStep({}));
  // 2 rows of 400,000 bytes fit 1 MiB: 2 + 2 + 1 rows, then 1 of the second step.
  ASSERT_EQ(a.outbox.to_next.size(), 4u);
  int64_t bytes = 0;
  for (const Sent& sent : a.outbox.to_next) {
    EXPECT_LE(sent.payload.size(), int64_t{1} << 20);
    v1::Frame whole = sent.frame;
    EXPECT_LE(whole.ByteSizeLong(), 64u);
    for (const auto& chunk : sent.payload.chunks) {
      whole.mutable_payload()->append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    }
    bytes += static_cast<int64_t>(whole.ByteSizeLong()) + transport::kChecksumFieldBytes;
  }
  Pass(a, b);
  EXPECT_TRUE(b.worker->RunOneStep({}));
  EXPECT_TRUE(b.worker->RunOneStep({}));
  Pass(b, c);
  EXPECT_TRUE(c.worker->RunOneStep({}));
  EXPECT_TRUE(c.worker->RunOneStep({}));

  EXPECT_EQ(c.outbox.Pop().step_result().sampled(0).token(), 5 + 3);
  EXPECT_EQ(c.outbox.Pop().step_result().sampled(0).token(), 10 + 3);
  EXPECT_EQ(a.outbox.Pop().step_done().activation_out().frames(), 3);
  const v1::StepDone sent = a.outbox.Pop().step_done();
  EXPECT_EQ(sent.activation_out().frames(), 4);
  EXPECT_EQ(sent.activation_out().bytes(), bytes);
  EXPECT_EQ(b.outbox.Pop().step_done().wait_us(), 3000);
  const v1::StepDone received = b.outbox.Pop().step_done();
  EXPECT_EQ(received.activation_in().frames(), 4);
  EXPECT_EQ(received.activation_in().bytes(), bytes);
}

// They come with the step's last chunk and leave with its result.
TEST_F(StageWorkerTest, NumericFaultsTravelToTheLastStage) {
  Stage& a = AddLoadedStage(3, 0, 3);
  Stage& b = AddLoadedStage(3, 1, 3);
  Stage& c = AddLoadedStage(3, 2, 3);
  for (Stage* stage : {&a, &b, &c}) {
    stage->worker->OnCoordinatorFrame(PlanFrame(3, 1, {600, 599, 1, 598}));
    stage->worker->OnCoordinatorFrame(PlanFrame(3, 2, {1}));
  }
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(a.worker->RunOneStep({}));
  EXPECT_EQ(a.outbox.to_next[0].frame.activation().faults_size(), 0);
  EXPECT_EQ(a.outbox.to_next[1].frame.activation().faults_size(), 1);
  Pass(a, b);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(b.worker->RunOneStep({}));
  Pass(b, c);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(c.worker->RunOneStep({}));
  const v1::StepResult result = c.outbox.Pop().step_result();
  std::vector<int32_t> layers;
  for (const v1::NumericFault& fault : result.faults()) layers.push_back(fault.layer());
  EXPECT_THAT(layers, ElementsAre(0, 2, 4));
  EXPECT_EQ(c.outbox.Pop().step_result().faults_size(), 0);
}

TEST_F(StageWorkerTest, DropsStaleFramesAtTheGate) {
  Stage& stage = AddLoadedStage(5, 0, 1);
  stage.worker->OnCoordinatorFrame(PlanFrame(4, 1, {1}));
  stage.worker->OnCoordinatorFrame(PlanFrame(6, 1, {1}));
  stage.worker->OnCoordinatorFrame(AssignFrame(5, 0, 1));
  stage.worker->OnCoordinatorFrame(AssignFrame(4, 0, 1));
  v1::Frame release;
  release.set_epoch(4);
  release.mutable_release();
  stage.worker->OnCoordinatorFrame(release);
  stage.worker->OnActivationFrame(PlanFrame(4, 1, {1}), {});
  EXPECT_EQ(stage.worker->stale_frames(), 6u);
  EXPECT_EQ(stage.worker->epoch(), Epoch(5));
  EXPECT_FALSE(stage.worker->RunOneStep({}));
  EXPECT_TRUE(stage.outbox.to_coordinator.empty());
}

TEST_F(StageWorkerTest, KeepsEarlyActivationsUntilTheirEpochBegins) {
  Stage& a = AddLoadedStage(2, 0, 2);
  Stage& b = AddLoadedStage(1, 1, 2);
  a.worker->OnCoordinatorFrame(PlanFrame(2, 1, {7}));
  EXPECT_TRUE(a.worker->RunOneStep({}));
  Pass(a, b);
  EXPECT_EQ(b.worker->stale_frames(), 0u);
  b.worker->OnCoordinatorFrame(AssignFrame(2, 1, 2));
  b.worker->OnCoordinatorFrame(PlanFrame(2, 1, {7}));
  EXPECT_TRUE(b.worker->RunOneStep({}));
  EXPECT_EQ(b.outbox.to_coordinator.back().step_result().sampled(0).token(), 9);
}

TEST_F(StageWorkerTest, TooManyEarlyActivationsFailTheirEpochOnly) {
  Stage& stage = AddLoadedStage(1, 1, 2);
  for (int64_t i = 0; i <= kEarlyActivationFramesMax; ++i) {
    v1::Frame frame;
    frame.set_epoch(2);
    frame.mutable_activation();
    stage.worker->OnActivationFrame(std::move(frame), {});
  }
  EXPECT_TRUE(stage.worker->status().ok());
  stage.worker->OnCoordinatorFrame(AssignFrame(2, 1, 2));
  EXPECT_EQ(stage.worker->status().code(), absl::StatusCode::kResourceExhausted);
  stage.worker->OnCoordinatorFrame(AssignFrame(3, 1, 2));
  EXPECT_TRUE(stage.worker->status().ok());
}

TEST_F(StageWorkerTest, AContradictionIsReportedAndEndsTheShard) {
  Stage& stage = AddLoadedStage(5, 0, 1);
  v1::Frame plan = PlanFrame(5, 1, {1});
  plan.mutable_step_plan()->mutable_scheduled(0)->set_expected_tokens(2);
  stage.worker->OnCoordinatorFrame(plan);
  EXPECT_TRUE(stage.worker->RunOneStep({}));
  EXPECT_FALSE(stage.worker->status().ok());
  const v1::Frame failure = stage.outbox.Pop();
  EXPECT_THAT(failure.failure().message(), HasSubstr("step 1: sequence 1: has 1 tokens"));
  stage.worker->OnCoordinatorFrame(PlanFrame(5, 2, {1}));
  EXPECT_FALSE(stage.worker->RunOneStep({}));
  EXPECT_TRUE(stage.outbox.to_coordinator.empty());
  // A new epoch heals it, with the weights that are there.
  stage.worker->OnCoordinatorFrame(AssignFrame(6, 0, 1));
  EXPECT_TRUE(stage.worker->status().ok());
  EXPECT_EQ(loads_, 1);
  stage.worker->OnCoordinatorFrame(PlanFrame(6, 1, {1}));
  EXPECT_TRUE(stage.worker->RunOneStep({}));
  EXPECT_TRUE(stage.worker->status().ok());
}

TEST_F(StageWorkerTest, FaultsOfTheWireNameThePreviousStage) {
  Stage& a = AddLoadedStage(1, 0, 2);
  Stage& b = AddLoadedStage(1, 1, 2);
  a.worker->OnCoordinatorFrame(PlanFrame(1, 1, {1}));
  ASSERT_TRUE(a.worker->RunOneStep({}));
  a.outbox.to_next[0].frame.mutable_activation()->set_checksum(1);
  Pass(a, b);
  EXPECT_EQ(b.worker->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(b.worker->status().message()), HasSubstr("from before, stage 0"));
}

TEST_F(StageWorkerTest, FramesOfTheWrongKindAreFaults) {
  Stage& a = AddLoadedStage(1, 1, 2);
  v1::Frame frame;
  frame.set_epoch(1);
  frame.mutable_beat();
  a.worker->OnActivationFrame(frame, {});
  EXPECT_EQ(a.worker->status().code(), absl::StatusCode::kInvalidArgument);
  Stage& b = AddLoadedStage(1, 0, 1);
  b.worker->OnCoordinatorFrame(frame);
  EXPECT_EQ(b.worker->status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StageWorkerTest, AFailingRunnerIsReported) {
  Stage& stage = AddLoadedStage(1, 0, 1);
  stage.worker->OnCoordinatorFrame(PlanFrame(1, 1, {666}));
  EXPECT_TRUE(stage.worker->RunOneStep({}));
  EXPECT_THAT(stage.outbox.Pop().failure().message(), HasSubstr("the device is gone"));
}

TEST_F(StageWorkerTest, AFailingLoadIsReported) {
  Stage& stage = AddStage();
  v1::Frame frame = AssignFrame(1, 0, 1);
  frame.mutable_assign_shard()->set_num_layers(99);
  stage.worker->OnCoordinatorFrame(frame);
  EXPECT_EQ(stage.worker->status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(stage.outbox.to_coordinator.back().failure().message(), HasSubstr("no layer 99"));
}

TEST_F(StageWorkerTest, AnImpossibleShardIsRefusedBeforeLoading) {
  Stage& stage = AddStage();
  v1::Frame frame = AssignFrame(1, 0, 1);
  frame.mutable_assign_shard()->set_num_blocks(-1);
  stage.worker->OnCoordinatorFrame(frame);
  EXPECT_THAT(stage.outbox.Pop().failure().message(), HasSubstr("num_blocks is -1"));
  EXPECT_EQ(loads_, 0);
}

TEST_F(StageWorkerTest, PoisonedSequencesAreNamedApart) {
  Stage& stage = AddLoadedStage(1, 0, 1);
  stage.worker->OnCoordinatorFrame(PlanFrame(1, 1, {13}));
  EXPECT_TRUE(stage.worker->RunOneStep({}));
  const v1::Frame frame = stage.outbox.Pop();
  EXPECT_EQ(frame.step_result().sampled_size(), 0);
  EXPECT_THAT(frame.step_result().poisoned(), ElementsAre(13));
}

v1::Frame ProbeFrame(uint64_t epoch) {
  v1::Frame frame = PlanFrame(epoch, 0, {0});
  frame.mutable_step_plan()->set_probe(true);
  return frame;
}

TEST_F(StageWorkerTest, AProbePassesLikeAnyStepAndLeavesNothing) {
  Stage& a = AddLoadedStage(1, 0, 2);
  Stage& b = AddLoadedStage(1, 1, 2);
  for (Stage* stage : {&a, &b}) stage->worker->OnCoordinatorFrame(ProbeFrame(1));
  EXPECT_TRUE(a.worker->RunOneStep({}));
  EXPECT_FALSE(b.worker->RunOneStep({}));
  Pass(a, b);
  EXPECT_TRUE(b.worker->RunOneStep({}));
  ASSERT_TRUE(a.outbox.to_coordinator.front().has_step_done());
  EXPECT_EQ(a.outbox.Pop().step_done().step(), 0u);
  EXPECT_EQ(b.outbox.Pop().step_result().sampled_size(), 1);
  // Its sequence is not known any more, and the next plan does not say that it ended.
  for (Stage* stage : {&a, &b}) {
    v1::Frame plan = PlanFrame(1, 1, {40});
    plan.mutable_step_plan()->mutable_new_sequences(0)->set_sequence(0);
    plan.mutable_step_plan()->mutable_scheduled(0)->set_sequence(0);
    stage->worker->OnCoordinatorFrame(plan);
  }
  EXPECT_TRUE(a.worker->RunOneStep({}));
  const v1::StepDone done = a.outbox.Pop().step_done();
  EXPECT_EQ(done.step(), 1u);
  EXPECT_EQ(done.activation_out().frames(), 1) << "the probe's does not count";
  Pass(a, b);
  EXPECT_TRUE(b.worker->RunOneStep({}));
  EXPECT_EQ(b.outbox.Pop().step_result().done().activation_in().frames(), 1);
}

TEST_F(StageWorkerTest, AStepWithoutRowsIsAnswered) {
  Stage& a = AddLoadedStage(1, 0, 2);
  v1::Frame frame;
  frame.set_epoch(1);
  frame.mutable_step_plan()->set_step(1);
  a.worker->OnCoordinatorFrame(frame);
  EXPECT_TRUE(a.worker->RunOneStep({}));
  EXPECT_EQ(a.outbox.Pop().step_done().step(), 1u);
  EXPECT_TRUE(a.outbox.to_next.empty());
}

TEST_F(StageWorkerTest, ReleaseDropsTheShard) {
  Stage& stage = AddLoadedStage(5, 0, 1);
  EXPECT_EQ(alive_, 1);
  v1::Frame release;
  release.set_epoch(5);
  release.mutable_release();
  stage.worker->OnCoordinatorFrame(release);
  EXPECT_EQ(alive_, 0);
  EXPECT_EQ(stage.worker->epoch(), Epoch());
  stage.worker->OnCoordinatorFrame(PlanFrame(5, 1, {1}));
  EXPECT_EQ(stage.worker->stale_frames(), 1u);
  stage.worker->OnCoordinatorFrame(AssignFrame(6, 0, 1));
  EXPECT_EQ(loads_, 2);
}

TEST_F(StageWorkerTest, AnotherShardFreesTheOldOneFirst) {
  Stage& stage = AddLoadedStage(1, 0, 1);
  stage.worker->OnCoordinatorFrame(AssignFrame(2, 0, 2));
  EXPECT_EQ(loads_, 2);
  EXPECT_EQ(alive_, 1);
}

TEST_F(StageWorkerTest, ANewCoordinatorCountsEpochsFromTheStart) {
  Stage& stage = AddLoadedStage(9, 0, 1);
  stage.worker->OnCoordinatorLost();
  EXPECT_EQ(stage.worker->epoch(), Epoch());
  EXPECT_FALSE(stage.worker->RunOneStep({}));
  stage.worker->OnCoordinatorFrame(AssignFrame(1, 0, 1));
  EXPECT_EQ(stage.worker->epoch(), Epoch(1));
  EXPECT_EQ(loads_, 1);  // the weights were still there
}

TEST_F(StageWorkerTest, ACoordinatorOfALowerIncarnationIsNotObeyed) {
  const uint64_t before = EpochBefore(7).value();
  Stage& stage = AddLoadedStage(before + 9, 0, 1);
  stage.worker->OnCoordinatorLost();
  stage.worker->OnCoordinatorFrame(AssignFrame(EpochBefore(6).value() + 20, 0, 1));
  EXPECT_EQ(stage.worker->epoch(), Epoch());
  EXPECT_EQ(stage.worker->stale_frames(), 1u);
  stage.worker->OnCoordinatorFrame(AssignFrame(before + 1, 0, 1));
  EXPECT_EQ(stage.worker->epoch(), Epoch(before + 1));
  stage.worker->OnCoordinatorFrame(AssignFrame(EpochBefore(8).value() + 1, 0, 1));
  EXPECT_EQ(IncarnationOf(stage.worker->epoch()), 8u);
  EXPECT_EQ(loads_, 1);
}

}  // namespace
}  // namespace tutti::worker
