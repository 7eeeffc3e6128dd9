// The engine beyond scenarios (tests/scenarios) and simulation (tests/simulation): numbers of the
// status page, times, and the pipelines that hold a prompt.
#include "coordinator/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/engine_testing.h"
#include "coordinator/limits.h"
#include "coordinator/metrics/step_metrics.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

TEST_F(EngineTest, StatusShowsThePipeline) {
  Start(TinyEngineOptions(2));
  Turn();
  EXPECT_EQ(Status().pipelines(0).state(), "waiting for workers");
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("0 of 2 have joined"));
  Join(1, "w1");
  Turn();
  ASSERT_EQ(Status().idle_workers_size(), 1);
  EXPECT_EQ(Status().idle_workers(0).worker_id(), "w1");
  Join(2, "w2");
  Join(3, "w3");
  Turn();
  v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.pipelines(0).state(), "loading");
  EXPECT_EQ(status.pipelines(0).stages_size(), 2);
  EXPECT_EQ(status.idle_workers_size(), 1) << "a spare";
  v1::Frame progress;
  progress.set_epoch(epoch());
  progress.mutable_shard_progress()->set_loaded_bytes(25);
  progress.mutable_shard_progress()->set_total_bytes(100);
  Send(1, progress);
  EXPECT_DOUBLE_EQ(Status().pipelines(0).stages(0).loaded_share(), 0.25);
  now_ += milliseconds(100);
  Ready(1);
  Ready(2);
  Beat(1, 5);
  Turn();
  status = Status();
  EXPECT_TRUE(status.serving());
  EXPECT_EQ(status.why_not_serving(), "");
  EXPECT_EQ(status.model(), "tiny");
  const v1::PipelineStatus& pipeline = status.pipelines(0);
  EXPECT_EQ(pipeline.state(), "serving");
  EXPECT_EQ(pipeline.blocks_total(), 64);
  EXPECT_EQ(pipeline.kv_tokens_total(), 1024);
  EXPECT_EQ(pipeline.numerics_class(), "class");
  const v1::StageStatus& stage = pipeline.stages(0);
  EXPECT_EQ(stage.worker().worker_id(), "w1");
  EXPECT_GT(stage.predicted().weights(), 0);
  EXPECT_EQ(stage.predicted().kv(), 1024 * 128 * stage.num_layers());
  EXPECT_EQ(stage.actual().weights(), 1234);
  EXPECT_EQ(stage.actual().resident(), 777);
  EXPECT_EQ(stage.actual().budget(), int64_t{1} << 30);
  EXPECT_DOUBLE_EQ(stage.load_seconds(), 0.5);
  EXPECT_DOUBLE_EQ(stage.loaded_share(), 1);
}

TEST_F(EngineTest, StatusCountsBytesPerToken) {
  Serve(TinyEngineOptions(2), 2);
  Arrive(1, 10, 5);
  Turn();
  now_ += milliseconds(10);
  v1::Frame done;
  done.set_epoch(epoch());
  done.mutable_step_done()->set_step(1);
  done.mutable_step_done()->set_compute_us(4000);
  done.mutable_step_done()->set_wait_us(1000);
  done.mutable_step_done()->mutable_activation_out()->set_bytes(1500);
  done.mutable_step_done()->mutable_activation_out()->set_frames(2);
  Send(1, done);
  const auto status = Status();
  const v1::StageStatus& stage = status.pipelines(0).stages(0);
  EXPECT_EQ(stage.rows(), 10);
  EXPECT_EQ(stage.activation_bytes_out(), 1500);
  EXPECT_EQ(stage.activation_frames_out(), 2);
  EXPECT_DOUBLE_EQ(stage.activation_bytes_per_token(), 150);
  EXPECT_DOUBLE_EQ(stage.compute_share(), 0.4);
  EXPECT_DOUBLE_EQ(stage.wait_share(), 0.1);
  EXPECT_EQ(status.pipelines(0).running(), 1);
  EXPECT_EQ(status.pipelines(0).steps_in_flight(), 1);
  EXPECT_EQ(status.requests().prompt_tokens(), 10u);
}

TEST_F(EngineTest, CountsTheTokensOfEachStepThatIsDone) {
  StepMetrics steps;
  EngineOptions options = TinyEngineOptions(1);
  options.step_metrics = &steps;
  Serve(options);
  Arrive(1, 10, 5);
  Turn();
  const auto sent = ActionsOf<SendToWorker>();
  const v1::StepPlan& plan = sent.back().frame.step_plan();
  ASSERT_EQ(plan.scheduled_size(), 1);
  const auto text = [&steps] {
    metrics::Exposition to;
    steps.Write(&to);
    return to.Release();
  };
  EXPECT_THAT(text(), HasSubstr("tutti_pipeline_step_tokens_count{pipeline=\"0\"} 0\n"));
  v1::Frame result = ResultFrame(epoch(), plan.step());
  v1::SampledToken* const token = result.mutable_step_result()->add_sampled();
  token->set_sequence(plan.scheduled(0).sequence());
  token->set_position(plan.scheduled(0).expected_tokens());
  token->set_token(7);
  Send(1, result);
  EXPECT_THAT(text(), HasSubstr("tutti_pipeline_step_tokens_count{pipeline=\"0\"} 1\n"));
  EXPECT_THAT(text(), HasSubstr("tutti_pipeline_step_tokens_sum{pipeline=\"0\"} 10\n"));
}

TEST_F(EngineTest, AStepThatTookLessThanNoTimeIsRefused) {
  for (const int field : {0, 1, 2}) {
    Serve(TinyEngineOptions(2), 2);
    Arrive(1, 10, 5);
    Turn();
    actions_.clear();
    v1::Frame frame;
    frame.set_epoch(epoch());
    v1::StepDone* const done = frame.mutable_step_done();
    done->set_step(1);
    done->set_compute_us(field == 0 ? -1 : 4000);
    done->set_wait_us(field == 1 ? INT64_MIN : 0);
    done->set_exchange_wait_us(field == 2 ? -7 : 0);
    Send(1, frame);
    ASSERT_EQ(ActionsOf<CloseWorker>().size(), 1u) << field;
    EXPECT_THAT(std::string(ActionsOf<CloseWorker>()[0].reason.message()),
                testing::HasSubstr("no time is below 0"));
  }
}

TEST_F(EngineTest, ABurstOfEventsIsOnePlan) {
  Serve(TinyEngineOptions(1));
  actions_.clear();
  for (uint64_t id = 1; id <= 5; ++id) Arrive(id, 3, 3);
  EXPECT_TRUE(actions_.empty()) << "Handle never plans";
  Turn();
  ASSERT_EQ(ActionsOf<SendToWorker>().size(), 1u);
  EXPECT_EQ(ActionsOf<SendToWorker>()[0].frame.step_plan().scheduled_size(), 5);
}

TEST_F(EngineTest, SaysWhenItMustBeCalled) {
  EngineOptions options = TinyEngineOptions(1);
  Start(options);
  Turn();
  EXPECT_EQ(engine_->next_deadline(), kInstantNever);
  Join(1, "w1");
  EXPECT_EQ(engine_->next_deadline(), now_ + options.lease);
  Turn();
  EXPECT_GT(engine_->next_deadline(), now_);
  EXPECT_LE(engine_->next_deadline(), now_ + options.lease);
  now_ += milliseconds(5);
  Ready(1);
  EXPECT_GT(engine_->next_deadline(), now_);
  EXPECT_LE(engine_->next_deadline(), now_ + options.lease);
  Request request;
  request.id = RequestId(1);
  request.prompt = {1};
  request.max_tokens = 1;
  request.deadline = now_ + milliseconds(10);
  Give(RequestArrived{request});
  EXPECT_EQ(engine_->next_deadline(), now_ + milliseconds(10));
}

TEST_F(EngineTest, SaysWhoHoldsAPrompt) {
  EngineOptions options = TinyEngineOptions(2);
  options.num_pipelines = 2;
  Serve(options, 4);
  Arrive(1, 40, 5);
  Turn();
  v1::Frame done;
  done.set_epoch(1);
  done.mutable_step_done()->set_step(1);
  Send(1, done);
  v1::Frame result = ResultFrame(/*epoch=*/1, /*step=*/1);
  v1::SampledToken* const sampled = result.mutable_step_result()->add_sampled();
  sampled->set_sequence(1);
  sampled->set_position(40);
  Send(2, result);
  Turn();
  v1::LookupPrefixResponse found;
  const std::vector<TokenId> tokens(35, 1);
  engine_->LookupPrefix(Hash128(), tokens, &found);
  EXPECT_EQ(found.prompt_tokens(), 35);
  ASSERT_EQ(found.holdings_size(), 1);
  EXPECT_EQ(found.holdings(0).pipeline(), 0u);
  EXPECT_EQ(found.holdings(0).tokens(), 32);
  EXPECT_EQ(found.holdings(0).blocks(), 2);
  ASSERT_EQ(found.holdings(0).shards_size(), 2);
  EXPECT_EQ(found.holdings(0).shards(1).worker_id(), "w2");
  EXPECT_EQ(found.holdings(0).shards(0).kv_bytes(),
            32 * 128 * found.holdings(0).shards(0).num_layers());
  found.Clear();
  engine_->LookupPrefix(Hash128{.low = 1}, tokens, &found);
  EXPECT_EQ(found.holdings_size(), 0) << "another tenant's";
}

// Keys of long and short prompts are turned by different bases there, and never shared.
TEST_F(EngineTest, SaysWhoHoldsAPromptOfItsLength) {
  EngineOptions options = TinyEngineOptions(1);
  options.model.rope.scaling = model::RopeConfig::Scaling::kDynamicNtk;
  options.model.rope.original_context = 36;
  Serve(options);
  Arrive(1, 40, 5);
  Turn();
  v1::Frame result = ResultFrame(epoch(), /*step=*/1);
  v1::SampledToken* const sampled = result.mutable_step_result()->add_sampled();
  sampled->set_sequence(1);
  sampled->set_position(40);
  Send(1, result);
  v1::LookupPrefixResponse found;
  engine_->LookupPrefix(Hash128(), std::vector<TokenId>(40, 1), &found);
  ASSERT_EQ(found.holdings_size(), 1);
  EXPECT_EQ(found.holdings(0).tokens(), 32);
  found.Clear();
  engine_->LookupPrefix(Hash128(), std::vector<TokenId>(36, 1), &found);
  EXPECT_EQ(found.holdings_size(), 0);
}

}  // namespace
}  // namespace tutti::coordinator
