// --itl-target through the engine: what workers report of their steps bounds the prompts of the
// next ones, and the status tells of it.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;

// One worker of unknown speed: a step takes 5 ms, and 1 ms for each of its rows.
class EngineTargetTest : public EngineTest {
 protected:
  void Begin(Duration itl_target) {
    EngineOptions options = TinyEngineOptions(1);
    options.model.max_position_embeddings = 1 << 20;
    options.kv_tokens_max = 10'000;
    options.itl_target = itl_target;
    Serve(options);
    TakePlans();
  }
  void TakePlans() {
    Turn();
    for (SendToWorker& send : ActionsOf<SendToWorker>()) {
      if (send.frame.has_step_plan()) plans_.push_back(*send.frame.mutable_step_plan());
    }
    actions_.clear();
  }
  void Ask(uint64_t id, size_t prompt) {
    Request request;
    request.id = RequestId(id);
    request.prompt.assign(prompt, static_cast<TokenId>(id));
    request.max_tokens = 1000;
    Give(RequestArrived{std::move(request)});
    TakePlans();
  }
  // The oldest plan is done.
  void Step() {
    const v1::StepPlan plan = std::move(plans_.front());
    plans_.erase(plans_.begin());
    v1::Frame result = ResultOf(epoch(), plan);
    const int32_t ms = 5 + plan.total_rows();
    result.mutable_step_result()->mutable_done()->set_compute_us(1'000 * ms);
    now_ += milliseconds(ms);
    Send(1, result);
    TakePlans();
  }
  v1::PipelineStatus PipelineNow() { return Status().pipelines(0); }

  std::vector<v1::StepPlan> plans_;
};

TEST_F(EngineTargetTest, PromptsAreBoundedByWhatStepsTook) {
  Begin(milliseconds(50));
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
  const v1::PipelineStatus status = PipelineNow();
  EXPECT_GE(status.bounded_steps(), 8u);
  EXPECT_NEAR(status.step_seconds().at(1), 0.006, 0.001);
  EXPECT_NEAR(status.step_seconds().at(64), 0.069, 0.005);
}

// A deadline is refused for the pace that steps have when nobody waits for a token, not for that of
// bounded ones.
TEST_F(EngineTargetTest, BoundedStepsAreNoPace) {
  Begin(milliseconds(200));
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
  EXPECT_GE(PipelineNow().bounded_steps(), static_cast<uint64_t>(2 * kRateGroupSteps));
  EXPECT_EQ(PipelineNow().prompt_tokens_per_second(), 0);
}

TEST_F(EngineTargetTest, ZeroBoundsNothing) {
  Begin(Duration());
  Ask(1, 300);
  Step();
  Step();
  Ask(2, 500);
  Step();
  ASSERT_EQ(plans_.size(), 1u);
  EXPECT_EQ(plans_[0].total_rows(), 501);
  EXPECT_EQ(PipelineNow().bounded_steps(), 0u);
}

}  // namespace
}  // namespace tutti::coordinator
