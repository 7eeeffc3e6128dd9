// --itl-target through the engine: what workers report of their steps bounds the prompts of the
// next ones, and the status tells of it.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/protocol.h"
#include "coordinator/engine.h"
#include "tests/support/probe_answers.h"
#include "tests/support/tiny_model.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;

// One worker of unknown speed: a step takes 5 ms, and 1 ms for each of its rows.
class EngineTargetTest : public testing::Test {
 protected:
  void Start(Duration itl_target) {
    EngineOptions options;
    options.model = tests::TinyModel(4);
    options.model.max_position_embeddings = 1 << 20;
    options.build = "build";
    options.kv_tokens_max = 10'000;
    options.itl_target = itl_target;
    engine_.emplace(options);
    v1::Hello hello;
    hello.set_protocol_version(kPeerProtocolVersion);
    hello.set_worker_id("w1");
    hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
    hello.set_build("build");
    hello.set_numerics_class("class");
    hello.set_memory_bytes(int64_t{4} << 30);
    Give(WorkerJoined{LinkKey(1), hello});
    Turn();
    v1::Frame ready = Frame();
    ready.mutable_shard_ready();
    Give(WorkerFrame{LinkKey(1), ready});
    Turn();
  }
  void Turn() {
    engine_->Advance(now_, &actions_);
    (void)probes_.Take(&actions_);  // notes who is who
    for (Action& action : actions_) {
      auto* const send = std::get_if<SendToWorker>(&action);
      if (send == nullptr || !send->frame.has_step_plan()) continue;
      plans_.push_back(std::move(*send->frame.mutable_step_plan()));
    }
    actions_.clear();
  }
  void Give(Event event) {
    engine_->Handle(std::move(event), now_, &actions_);
    for (WorkerFrame& answer : probes_.Take(&actions_)) Give(std::move(answer));
  }
  v1::PipelineStatus Status() {
    v1::GetStatusResponse status;
    engine_->FillStatus(now_, &status);
    return status.pipelines(0);
  }
  v1::Frame Frame() {
    v1::Frame frame;
    frame.set_epoch(Status().epoch());
    return frame;
  }
  void Ask(uint64_t id, size_t prompt) {
    Request request;
    request.id = RequestId(id);
    request.prompt.assign(prompt, static_cast<TokenId>(id));
    request.max_tokens = 1000;
    Give(RequestArrived{std::move(request)});
    Turn();
  }
  // The oldest plan is done.
  void Step() {
    const v1::StepPlan plan = std::move(plans_.front());
    plans_.erase(plans_.begin());
    v1::Frame frame = Frame();
    v1::StepResult* const result = frame.mutable_step_result();
    result->set_step(plan.step());
    result->mutable_done()->set_step(plan.step());
    result->mutable_done()->set_compute_us(5'000 + 1'000 * plan.total_rows());
    for (const v1::ScheduledSequence& scheduled : plan.scheduled()) {
      if (!scheduled.sample()) continue;
      v1::SampledToken* const sampled = result->add_sampled();
      sampled->set_sequence(scheduled.sequence());
      sampled->set_position(scheduled.expected_tokens());
    }
    now_ += milliseconds(5 + plan.total_rows());
    Give(WorkerFrame{LinkKey(1), frame});
    Turn();
  }

  Instant now_ = Instant() + std::chrono::seconds(1);
  std::optional<Engine> engine_;
  std::vector<Action> actions_;
  std::vector<v1::StepPlan> plans_;
  tests::ProbeAnswers probes_;
};

TEST_F(EngineTargetTest, PromptsAreBoundedByWhatStepsTook) {
  Start(milliseconds(50));
  Ask(1, 300);
  ASSERT_EQ(plans_.size(), 1u);
  EXPECT_EQ(plans_[0].total_rows(), 300) << "nobody waits for a token";
  Step();
  Step();  // of one row
  Ask(2, 500);
  Step();
  for (int step = 0; step < 8; ++step) {
    ASSERT_EQ(plans_.size(), 1u);
    EXPECT_GE(plans_[0].total_rows(), 30);
    EXPECT_LE(plans_[0].total_rows(), 50) << "45 rows take 50 ms, about";
    Step();
  }
  EXPECT_NEAR(plans_[0].total_rows(), 45, 2) << "and once it has been seen, exactly";
  const v1::PipelineStatus status = Status();
  EXPECT_GE(status.bounded_steps(), 8u);
  EXPECT_NEAR(status.step_seconds().at(1), 0.006, 0.001);
  EXPECT_NEAR(status.step_seconds().at(64), 0.069, 0.005);
}

// A deadline is refused for the pace that steps have when nobody waits for a token, not for that of
// bounded ones.
TEST_F(EngineTargetTest, BoundedStepsAreNoPace) {
  Start(milliseconds(200));
  Ask(1, 100);
  Step();
  Step();
  Ask(2, 8'000);
  for (int step = 0; step < 3 * kRateGroupSteps; ++step) {
    ASSERT_EQ(plans_.size(), 1u);
    if (step > 2) {
      EXPECT_GE(plans_[0].total_rows(), kEvenChunkTokensMin);
    }
    Step();
  }
  EXPECT_GE(Status().bounded_steps(), static_cast<uint64_t>(2 * kRateGroupSteps));
  EXPECT_EQ(Status().prompt_tokens_per_second(), 0);
}

TEST_F(EngineTargetTest, ZeroBoundsNothing) {
  Start(Duration());
  Ask(1, 300);
  Step();
  Step();
  Ask(2, 500);
  Step();
  ASSERT_EQ(plans_.size(), 1u);
  EXPECT_EQ(plans_[0].total_rows(), 501);
  EXPECT_EQ(Status().bounded_steps(), 0u);
}

}  // namespace
}  // namespace tutti::coordinator
