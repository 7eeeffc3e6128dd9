// The pace of each stage in the status: its step times beside the predicted ones, its waiting
// times, and the worker that has become slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/protocol.h"
#include "coordinator/engine.h"
#include "coordinator/limits.h"
#include "tests/support/probe_answers.h"
#include "tests/support/tiny_model.h"

namespace tutti::coordinator {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

// Two workers, one sequence: a step of one row after the other, of as long as each stage takes.
class EnginePaceTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model = Model();
    options.model.max_position_embeddings = 1 << 20;
    options.build = "build";
    options.num_stages = 2;
    options.max_sequences = 1;
    engine_ = std::make_unique<Engine>(options);
    Join(1, "w1");
    Join(2, "w2");
    Turn();
    for (uint64_t link = 1; link <= 2; ++link) {
      v1::Frame frame = Frame();
      frame.mutable_shard_ready();
      Give(WorkerFrame{LinkKey(link), frame});
    }
    Turn();
    Request request;
    request.id = RequestId(1);
    request.prompt = {1};
    request.max_tokens = 100'000;
    Give(RequestArrived{request});
    Turn();
  }
  virtual model::ModelConfig Model() const { return tests::TinyModel(4); }
  void Turn() {
    engine_->Advance(now_, &actions_);
    (void)probes_.Take(&actions_);  // notes who is who
  }
  void Give(Event event) {
    engine_->Handle(std::move(event), now_, &actions_);
    for (WorkerFrame& answer : probes_.Take(&actions_)) Give(std::move(answer));
  }
  v1::Frame Frame() {
    v1::Frame frame;
    frame.set_epoch(Status().pipelines(0).epoch());
    return frame;
  }
  void Join(uint64_t link, const std::string& id) {
    v1::Hello hello;
    hello.set_protocol_version(kPeerProtocolVersion);
    hello.set_worker_id(id);
    hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
    hello.set_build("build");
    hello.set_numerics_class("class");
    hello.set_memory_bytes(int64_t{4} << 30);
    hello.set_read_bytes_per_second(1e9);
    hello.set_flops_per_second(1e10);
    Give(WorkerJoined{LinkKey(link), hello});
  }
  v1::GetStatusResponse Status() {
    v1::GetStatusResponse status;
    engine_->FillStatus(now_, &status);
    return status;
  }
  void Fill(v1::StepDone* done, Duration computing) {
    done->set_step(step_);
    done->set_compute_us(std::chrono::duration_cast<microseconds>(computing).count());
  }
  // Time passes, in which both workers say that they are at work.
  void Compute(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ = std::min(end, now_ + std::chrono::seconds(1));
      for (uint64_t link = 1; link <= workers_; ++link) {
        v1::Frame beat;
        beat.mutable_beat()->set_progress(++progress_);
        beat.mutable_beat()->set_allowed_us(1'000'000);
        Give(WorkerFrame{LinkKey(link), beat});
      }
    }
  }
  // One step through both stages.
  void Step(Duration first, Duration second) {
    actions_.clear();
    ++step_;
    Compute(first);
    v1::Frame done = epoch_frame_;
    Fill(done.mutable_step_done(), first);
    Give(WorkerFrame{LinkKey(1), done});
    Compute(second);
    v1::Frame result = epoch_frame_;
    result.mutable_step_result()->set_step(step_);
    Fill(result.mutable_step_result()->mutable_done(), second);
    v1::SampledToken* const sampled = result.mutable_step_result()->add_sampled();
    sampled->set_sequence(1);
    sampled->set_position(static_cast<int32_t>(step_));
    Give(WorkerFrame{LinkKey(2), result});
    Turn();
  }
  void Run(Duration first, Duration second, Duration time) {
    epoch_frame_ = Frame();
    const Instant end = now_ + time;
    while (now_ < end) Step(first, second);
  }

  Instant now_ = Instant() + std::chrono::hours(1);
  std::unique_ptr<Engine> engine_;
  std::vector<Action> actions_;
  tests::ProbeAnswers probes_;
  v1::Frame epoch_frame_;
  uint64_t step_ = 0;
  uint64_t progress_ = 0;
  uint64_t workers_ = 2;
};

constexpr auto kMs = std::chrono::milliseconds(1);

TEST_F(EnginePaceTest, AStageThatTakesTwiceAsLongIsNamedWithinTenSeconds) {
  Run(30 * kMs, 50 * kMs, std::chrono::seconds(15));
  EXPECT_EQ(Status().pipelines(0).straggler(), "") << "an uneven split is not a slow worker";
  const Instant slowed = now_;
  while (Status().pipelines(0).straggler().empty() && now_ < slowed + std::chrono::seconds(30)) {
    Run(30 * kMs, 100 * kMs, 130 * kMs);
  }
  EXPECT_LT(Seconds(now_ - slowed), 10);
  EXPECT_THAT(Status().pipelines(0).straggler(), HasSubstr("worker w2 (stage 1) takes 2."));
}

// Whatever the time of a step: of slow models, two steps take longer than a window.
TEST_F(EnginePaceTest, AStageAtATenthIsNamedWithinTenSeconds) {
  for (const Duration each : {20 * kMs, 130 * kMs, 300 * kMs}) {
    engine_.reset();
    step_ = 0;
    SetUp();
    Run(each, each, std::chrono::seconds(15));
    EXPECT_EQ(Status().pipelines(0).straggler(), "");
    const Instant slowed = now_;
    while (Status().pipelines(0).straggler().empty() && now_ < slowed + std::chrono::seconds(30)) {
      Run(each, 10 * each, 1 * kMs);
    }
    EXPECT_LT(Seconds(now_ - slowed), 10) << Milliseconds(each) << " ms a step";
    EXPECT_THAT(Status().pipelines(0).straggler(), HasSubstr("worker w2 (stage 1)"));
  }
}

// The slowdowns of an epoch end with it: its shards are gone.
TEST_F(EnginePaceTest, APipelineThatEndedNamesNoStraggler) {
  Run(30 * kMs, 50 * kMs, std::chrono::seconds(15));
  Run(30 * kMs, 100 * kMs, std::chrono::seconds(15));
  ASSERT_NE(Status().pipelines(0).straggler(), "");
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  const v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.pipelines(0).straggler(), "");
  EXPECT_EQ(status.pipelines(0).busy_seconds_total(), 0);
}

TEST_F(EnginePaceTest, StepTimesStandBesideWhatWasPredicted) {
  Run(30 * kMs, 50 * kMs, std::chrono::seconds(8));
  const v1::GetStatusResponse status = Status();
  double busy = status.pipelines(0).busy_seconds_total();
  EXPECT_NEAR(busy, 8, 0.2) << "there is always a step under way";
  for (const v1::StageStatus& stage : status.pipelines(0).stages()) {
    const double seconds = stage.stage() == 0 ? 0.03 : 0.05;
    EXPECT_NEAR(stage.step_seconds(), seconds, 1e-6);
    EXPECT_EQ(stage.steps_total(), step_);
    EXPECT_NEAR(stage.compute_seconds_total(), seconds * static_cast<double>(step_), 1e-3);
    EXPECT_NEAR(stage.bubble_share(), 1 - seconds / 0.08, 0.02);
    // Two layers of 16 kB (and the head) at 1 GB/s.
    EXPECT_GT(stage.predicted_step_seconds(), 2 * 16e3 / 1e9);
    EXPECT_LT(stage.predicted_step_seconds(), 1e-3);
    EXPECT_NEAR(stage.predicted_seconds_total(),
                stage.predicted_step_seconds() * static_cast<double>(step_),
                0.3 * stage.predicted_seconds_total());
    EXPECT_DOUBLE_EQ(stage.worker().read_bytes_per_second(), 1e9);
  }
}

TEST_F(EnginePaceTest, WhatIsNewCountsMoreThanWhatIsOld) {
  Run(30 * kMs, 50 * kMs, std::chrono::seconds(20));
  Run(60 * kMs, 50 * kMs, std::chrono::seconds(20));
  EXPECT_NEAR(Status().pipelines(0).stages(0).step_seconds(), 0.06, 0.002);
}

// ---- slow for long: its place moves

// Steps at this pace until the pipeline has ended; the seconds that took, or nothing.
class EngineSlowTest : public EnginePaceTest {
 protected:
  std::optional<double> RunUntilMoved(Duration first, Duration second, Duration most) {
    const uint64_t epoch = Status().pipelines(0).epoch();
    const Instant begin = now_;
    while (now_ < begin + most) {
      if (Status().pipelines(0).epoch() != epoch) return Seconds(now_ - begin);
      Run(first, second, 1 * kMs);
      for (const Action& action : actions_) {
        EXPECT_FALSE(std::holds_alternative<FinishRequest>(action)) << "its stream goes on";
      }
    }
    return std::nullopt;
  }
  std::vector<std::string> Stages() {
    std::vector<std::string> workers;
    const v1::GetStatusResponse status = Status();
    for (const v1::StageStatus& stage : status.pipelines(0).stages()) {
      workers.push_back(stage.worker().worker_id());
    }
    return workers;
  }
};

TEST_F(EngineSlowTest, ASpareTakesThePlace) {
  Join(3, "w3");
  workers_ = 3;
  Turn();
  Run(30 * kMs, 30 * kMs, std::chrono::seconds(15));
  const auto moved = RunUntilMoved(30 * kMs, 100 * kMs, std::chrono::seconds(60));
  ASSERT_TRUE(moved.has_value());
  EXPECT_GT(*moved, 8);
  EXPECT_LT(*moved, 18);
  EXPECT_THAT(Stages(), testing::ElementsAre("w1", "w3"));
  EXPECT_THAT(Status().idle_workers(0).standby(), HasSubstr("slow"));
  EXPECT_EQ(Status().waiting(), 1) << "its stream waits for the spare";
}

// Slowness there may be the load: see MoveSlow.
class EngineMixtureTest : public EngineSlowTest {
 protected:
  model::ModelConfig Model() const override {
    model::ModelConfig model = tests::TinyModel(4);
    model.num_experts = 4;
    model.experts_per_token = 2;
    model.expert_intermediate_size = model.intermediate_size;
    model.dense_layers = {0, 1};
    return model;
  }
};

TEST_F(EngineMixtureTest, OfDenseLayersAndOthersNoPlaceMoves) {
  Join(3, "w3");
  workers_ = 3;
  Turn();
  Run(30 * kMs, 30 * kMs, std::chrono::seconds(15));
  EXPECT_FALSE(RunUntilMoved(30 * kMs, 300 * kMs, std::chrono::seconds(60)).has_value());
}

// The stages that are left hold the model between them.
TEST_F(EngineSlowTest, WithoutASpareTheOthersShareItsLayers) {
  Run(30 * kMs, 30 * kMs, std::chrono::seconds(15));
  ASSERT_TRUE(RunUntilMoved(30 * kMs, 300 * kMs, std::chrono::seconds(60)).has_value());
  EXPECT_THAT(Stages(), testing::ElementsAre("w1"));
  v1::Frame ready = Frame();
  ready.mutable_shard_ready();
  Give(WorkerFrame{LinkKey(1), ready});
  Turn();
  ASSERT_EQ(Status().pipelines(0).state(), "serving");
  // It stays so: nobody knows that the other is quick again.
  const uint64_t epoch = Status().pipelines(0).epoch();
  for (int i = 0; i < 600; ++i) {
    Compute(std::chrono::seconds(1));
    Turn();
  }
  EXPECT_EQ(Status().pipelines(0).epoch(), epoch);
  // Until its operator says so.
  std::vector<Action> actions;
  ASSERT_TRUE(engine_->DrainWorker("w2", /*undo=*/true, now_, &actions).ok());
  Turn();
  EXPECT_THAT(Stages(), testing::ElementsAre("w1", "w2"));
}

TEST_F(EngineSlowTest, AMachineThatIsSlowAsAWholeMovesNobody) {
  Join(3, "w3");
  workers_ = 3;
  Turn();
  Run(30 * kMs, 40 * kMs, std::chrono::seconds(15));
  EXPECT_FALSE(RunUntilMoved(300 * kMs, 400 * kMs, std::chrono::seconds(60)).has_value());
}

TEST_F(EnginePaceTest, AnIdlePipelineHasNoBubble) {
  Run(30 * kMs, 50 * kMs, std::chrono::seconds(1));
  Give(RequestCancelled{RequestId(1)});
  Turn();
  Step(30 * kMs, 50 * kMs);  // the step under way
  const double busy = Status().pipelines(0).busy_seconds_total();
  now_ += std::chrono::milliseconds(500);
  EXPECT_DOUBLE_EQ(Status().pipelines(0).busy_seconds_total(), busy);
}

}  // namespace
}  // namespace tutti::coordinator
