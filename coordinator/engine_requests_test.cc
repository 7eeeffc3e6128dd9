// Requests at the engine: refusals at the door, the choice of a pipeline, the ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coordinator/engine_testing.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// The memory of a worker that holds the tiny model and little more.
constexpr int64_t kSmallMemory = 1'900'000;

using EngineRequestsTest = EngineTest;

TEST_F(EngineRequestsTest, ADeadlineInThePastEndsARequestAtOnce) {
  Serve(TinyEngineOptions(1));
  Request request;
  request.id = RequestId(1);
  request.prompt = {1};
  request.max_tokens = 1;
  request.deadline = now_ - milliseconds(1);
  actions_.clear();
  Give(RequestArrived{request});
  Turn();
  ASSERT_EQ(ActionsOf<FinishRequest>().size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(ActionsOf<FinishRequest>()[0].status));
  EXPECT_TRUE(ActionsOf<SendToWorker>().empty()) << "nothing was computed for it";
}

TEST_F(EngineRequestsTest, ALengthNobodyAskedForIsWhatFits) {
  Serve(TinyEngineOptions(1));
  Request request;
  request.id = RequestId(1);
  request.prompt.resize(1000, 1);
  request.max_tokens = 3000;
  Give(RequestArrived{request});
  EXPECT_THAT(std::string(ActionsOf<FinishRequest>().at(0).status.message()),
              HasSubstr("need room for 3999 tokens in the KV cache, which has 1024"));
  actions_.clear();
  request.id = RequestId(2);
  request.max_tokens_is_default = true;
  Give(RequestArrived{request});
  Turn();
  EXPECT_TRUE(ActionsOf<FinishRequest>().empty());
  request.id = RequestId(3);
  request.prompt.resize(1025, 1);
  Give(RequestArrived{request});
  EXPECT_TRUE(absl::IsInvalidArgument(ActionsOf<FinishRequest>().at(0).status)) << "nothing fits";
}

// The second of two outputs came when more fitted, so its length is more than the pipeline of the
// first can ever hold.
TEST_F(EngineRequestsTest, AnOutputTooLongForItsGroupsPipelineGoesElsewhere) {
  EngineOptions options = TinyEngineOptions(1);
  options.num_pipelines = 2;
  options.kv_tokens_max = 2048;
  Start(options);
  Join(1, "w1", kSmallMemory);
  Join(2, "w2");
  Turn();
  Ready(1, /*epoch=*/1);
  ASSERT_LT(Status().pipelines(0).kv_tokens_total(), 1000);
  Request request;
  request.prompt.resize(10, 1);
  request.max_tokens_is_default = true;
  request.first_output = RequestId(1);
  for (uint64_t id = 1; id <= 2; ++id) {
    if (id == 2) Ready(2, /*epoch=*/2);
    request.id = RequestId(id);
    request.max_tokens = 1000;
    Give(RequestArrived{request});
    Turn();
  }
  EXPECT_EQ(Status().pipelines(0).running(), 1);
  EXPECT_EQ(Status().pipelines(1).running(), 1);
}

TEST_F(EngineRequestsTest, StreamsGoOnWithAnotherPipelineAndTheStatusSaysSo) {
  EngineOptions options = TinyEngineOptions(1);
  options.num_pipelines = 2;
  Serve(options, 2);
  Arrive(1, 10, 5);
  Turn();
  now_ += milliseconds(7);
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Turn();
  EXPECT_TRUE(ActionsOf<FinishRequest>().empty());
  v1::GetStatusResponse status = Status();
  EXPECT_EQ(status.pipelines(1).running(), 1);
  EXPECT_TRUE(status.serving());
  EXPECT_THAT(status.degraded(), HasSubstr("pipeline 0: waiting for workers"));
  ASSERT_EQ(status.recoveries_size(), 1);
  EXPECT_EQ(status.recoveries(0).sequences(), 1);
  EXPECT_THAT(status.recoveries(0).cause(),
              HasSubstr("worker w1 (stage 0 of pipeline 0) was lost"));
  EXPECT_DOUBLE_EQ(status.recoveries(0).unheard_ms(), 7);
  EXPECT_DOUBLE_EQ(status.recoveries(0).recovered_ms(), 0);
}

TEST_F(EngineRequestsTest, WhileThePipelineIsAwaitedRequestsAreTakenAndItIsServing) {
  EngineOptions options = TinyEngineOptions(1);
  Serve(options, 1);
  actions_.clear();
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Turn();
  for (const ServingChanged& told : ActionsOf<ServingChanged>()) {
    EXPECT_TRUE(told.serving) << "nobody is sent away";
  }
  Arrive(1, 10, 5);
  Turn();
  EXPECT_TRUE(ActionsOf<FinishRequest>().empty());
  EXPECT_THAT(Status().degraded(), HasSubstr("waiting for workers"));
  actions_.clear();
  now_ += options.recovery_timeout;
  EXPECT_LE(engine_->next_deadline(), now_);
  Turn();
  ASSERT_EQ(ActionsOf<ServingChanged>().size(), 1u);
  EXPECT_FALSE(ActionsOf<ServingChanged>()[0].serving);
  ASSERT_EQ(ActionsOf<FinishRequest>().size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(ActionsOf<FinishRequest>()[0].status));
  actions_.clear();
  Arrive(2, 10, 5);
  Turn();
  EXPECT_THAT(std::string(ActionsOf<FinishRequest>()[0].status.message()),
              HasSubstr("not serving"));
}

// Eight full steps of 128 rows in 80 ms are 12,800 tokens a second: 5,000 take 390 ms.
TEST_F(EngineRequestsTest, ADeadlineThatCannotBeMetIsRefusedBeforeThePrompt) {
  EngineOptions options = TinyEngineOptions(1);
  options.kv_tokens_max = 8192;
  options.max_model_len = 0;
  options.model.max_position_embeddings = 16384;
  options.chunk_tokens = 128;
  options.max_batch_tokens = 128;
  Serve(options);
  const auto arrive = [&](uint64_t id, int32_t prompt, TokenId token, Duration left) {
    Request request;
    request.id = RequestId(id);
    request.prompt.resize(prompt, token);
    request.max_tokens = 5;
    request.deadline = now_ + left;
    actions_.clear();
    Give(RequestArrived{request});
    return ActionsOf<FinishRequest>();
  };
  EXPECT_TRUE(arrive(1, 2000, 1, std::chrono::seconds(60)).empty());
  Turn();
  for (uint64_t step = 1; step <= 12; ++step) {
    now_ += milliseconds(10);
    Send(1, ResultFrame(epoch(), step));
    Turn();
  }
  EXPECT_NEAR(Status().pipelines(0).prompt_tokens_per_second(), 12'800, 1);
  EXPECT_TRUE(arrive(2, 5000, 2, milliseconds(400)).empty());
  const auto refused = arrive(3, 5000, 3, milliseconds(380));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(refused[0].status));
  EXPECT_THAT(
      std::string(refused[0].status.message()),
      HasSubstr("computing the prompt of 5000 tokens takes 390 ms at the pace measured, and "
                "380 ms are left"));
  EXPECT_TRUE(arrive(4, 1500, 1, milliseconds(20)).empty()) << "most of it is cached";
}

// Keys of long prompts are cached apart from those of short ones: the door looks where they are.
TEST_F(EngineRequestsTest, ADeadlineCountsWhatIsCachedOfALongPrompt) {
  EngineOptions options = TinyEngineOptions(1);
  options.kv_tokens_max = 8192;
  options.model.max_position_embeddings = 16384;
  options.model.rope.scaling = model::RopeConfig::Scaling::kDynamicNtk;
  options.model.rope.original_context = 1024;
  options.chunk_tokens = 128;
  options.max_batch_tokens = 128;
  Serve(options);
  Arrive(1, 1400, 5);
  Turn();
  for (uint64_t step = 1; step <= 10; ++step) {
    now_ += milliseconds(10);
    Send(1, ResultFrame(epoch(), step));
    Turn();
  }
  ASSERT_NEAR(Status().pipelines(0).prompt_tokens_per_second(), 12'800, 1);
  actions_.clear();
  Request request;
  request.id = RequestId(2);
  request.prompt.resize(1400, 1);
  request.max_tokens = 5;
  request.deadline = now_ + milliseconds(20);
  Give(RequestArrived{request});
  EXPECT_TRUE(ActionsOf<FinishRequest>().empty()) << "120 tokens are left to compute";
  request.id = RequestId(3);
  request.prompt.resize(1000);  // of the other kind: nothing is cached
  Give(RequestArrived{request});
  EXPECT_EQ(ActionsOf<FinishRequest>().size(), 1u);
}

TEST_F(EngineRequestsTest, QueueTimeIsUntilTheFirstStep) {
  EngineOptions options = TinyEngineOptions(1);
  options.max_sequences = 1;
  Serve(options);
  Arrive(1, 3, 1);
  Arrive(2, 3, 1);
  Turn();
  now_ += milliseconds(30);
  const auto result = [&](uint64_t step, uint64_t sequence) {
    v1::Frame frame = ResultFrame(epoch(), step);
    v1::SampledToken* const sampled = frame.mutable_step_result()->add_sampled();
    sampled->set_sequence(sequence);
    sampled->set_position(3);
    Send(1, frame);
    Turn();
  };
  result(1, 1);
  now_ += milliseconds(5);
  result(2, 2);
  const auto finished = ActionsOf<FinishRequest>();
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0].queue_time, Duration::zero());
  EXPECT_EQ(finished[1].queue_time, milliseconds(30));
}

// The one whose last chunk it is has no token; of the other nothing was to be sampled yet.
TEST_F(EngineRequestsTest, WhoLostItsNumbersEndsWithTheLayersName) {
  EngineOptions options = TinyEngineOptions(1);
  options.chunk_tokens = 32;
  options.enable_prefix_caching = true;
  Start(options);
  Join(1, "w1");
  Turn();
  Ready(1);
  Arrive(1, 5, 2);
  Arrive(2, 50, 2);
  Turn();
  v1::Frame frame;
  frame.set_epoch(epoch());
  v1::StepResult* const result = frame.mutable_step_result();
  result->set_step(1);
  result->mutable_done()->set_step(1);
  result->add_poisoned(1);
  for (const uint64_t sequence : {1, 2, 99}) {
    v1::NumericFault* const fault = result->add_faults();
    fault->set_sequence(sequence);
    fault->set_layer(sequence == 1 ? 3 : options.model.num_layers);
    fault->set_in_mlp(sequence == 1);
  }
  Send(1, frame);
  Turn();
  const auto ended = ActionsOf<FinishRequest>();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_TRUE(absl::IsInternal(ended[0].status));
  EXPECT_THAT(std::string(ended[0].status.message()), HasSubstr("the MLP of layer 3"));
  EXPECT_THAT(std::string(ended[0].status.message()), HasSubstr("produced NaN or Inf for token 0"));
  EXPECT_THAT(std::string(ended[1].status.message()), HasSubstr("the head"));
  EXPECT_THAT(ActionsOf<CloseWorker>(), testing::IsEmpty());
  v1::LookupPrefixResponse found;
  engine_->LookupPrefix(Hash128(), std::vector<TokenId>(50, 1), &found);
  EXPECT_EQ(found.holdings_size(), 0) << "keys that are NaN are not cached";
}

}  // namespace
}  // namespace tutti::coordinator
