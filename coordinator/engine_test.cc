// What scenarios (tests/scenarios) and simulation (tests/simulation) do not show: numbers of the
// status page, times, and frames from a worker that means harm.
#include "coordinator/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/protocol.h"
#include "base/random.h"
#include "coordinator/limits.h"
#include "tests/support/tiny_model.h"

namespace tutti::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Of a worker that holds the tiny model and little more.
constexpr int64_t kSmallMemory = 1'900'000;

class EngineTest : public testing::Test {
 protected:
  static EngineOptions Options(int32_t stages) {
    EngineOptions options;
    options.model = tests::TinyModel(4);
    options.model_name = "tiny";
    options.model_fingerprint = "print";
    options.build = "build";
    options.cluster_id = "cluster";
    options.num_stages = stages;
    options.kv_tokens_max = 1024;
    options.max_sequences = 8;
    return options;
  }

  void Start(const EngineOptions& options) { engine_ = std::make_unique<Engine>(options); }
  void Turn() { engine_->Advance(now_, &actions_); }
  void Give(Event event) { engine_->Handle(std::move(event), now_, &actions_); }
  void Join(uint64_t link, const std::string& id, int64_t memory_bytes = int64_t{1} << 30) {
    v1::Hello hello;
    hello.set_protocol_version(kPeerProtocolVersion);
    hello.set_cluster_id("cluster");
    hello.set_worker_id(id);
    hello.set_purpose(v1::LINK_PURPOSE_CONTROL);
    hello.set_build("build");
    hello.set_numerics_class("class");
    hello.set_model_fingerprint("print");
    hello.set_memory_bytes(memory_bytes);
    Give(WorkerJoined{LinkKey(link), hello});
  }
  void Send(uint64_t link, v1::Frame frame) { Give(WorkerFrame{LinkKey(link), std::move(frame)}); }
  void Ready(uint64_t link) { Ready(link, epoch()); }
  void Ready(uint64_t link, uint64_t epoch) {
    v1::Frame frame;
    frame.set_epoch(epoch);
    frame.mutable_shard_ready()->set_weight_bytes(1234);
    frame.mutable_shard_ready()->set_load_seconds(0.5);
    Send(link, frame);
  }
  // Workers w1, w2, ... join, form the pipelines, the first ones the first, and load.
  void Serve(const EngineOptions& options, uint64_t workers = 1) {
    Start(options);
    for (uint64_t link = 1; link <= workers; ++link) Join(link, absl::StrCat("w", link));
    Turn();
    const uint64_t each = workers / static_cast<uint64_t>(options.num_pipelines);
    for (uint64_t link = 1; link <= workers; ++link) Ready(link, 1 + (link - 1) / each);
  }
  // What rank 0 of the last stage says of a step; nothing is sampled yet.
  static v1::Frame ResultFrame(uint64_t epoch, uint64_t step) {
    v1::Frame frame;
    frame.set_epoch(epoch);
    frame.mutable_step_result()->set_step(step);
    frame.mutable_step_result()->mutable_done()->set_step(step);
    return frame;
  }
  void Beat(uint64_t link, uint64_t progress) {
    v1::Frame frame;
    frame.mutable_beat()->set_progress(progress);
    frame.mutable_beat()->set_resident_bytes(777);
    Send(link, frame);
  }
  void Arrive(uint64_t id, int32_t prompt, int32_t max_tokens) {
    Request request;
    request.id = RequestId(id);
    request.prompt.resize(prompt, 1);
    request.max_tokens = max_tokens;
    Give(RequestArrived{request});
  }
  uint64_t epoch() { return Status().pipelines(0).epoch(); }
  v1::GetStatusResponse Status() {
    v1::GetStatusResponse status;
    engine_->FillStatus(now_, &status);
    return status;
  }
  template <typename T>
  std::vector<T> Taken() {
    std::vector<T> found;
    for (const Action& action : actions_) {
      if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
    }
    return found;
  }

  Instant now_ = Instant() + std::chrono::hours(1);
  std::unique_ptr<Engine> engine_;
  std::vector<Action> actions_;
};

TEST_F(EngineTest, StatusShowsThePipeline) {
  Start(Options(2));
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
  Serve(Options(2), 2);
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

TEST_F(EngineTest, AStepThatTookLessThanNoTimeIsRefused) {
  for (const int field : {0, 1, 2}) {
    Serve(Options(2), 2);
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
    ASSERT_EQ(Taken<CloseWorker>().size(), 1u) << field;
    EXPECT_THAT(std::string(Taken<CloseWorker>()[0].reason.message()),
                testing::HasSubstr("no time is below 0"));
  }
}

TEST_F(EngineTest, ABurstOfEventsIsOnePlan) {
  Serve(Options(1));
  actions_.clear();
  for (uint64_t id = 1; id <= 5; ++id) Arrive(id, 3, 3);
  EXPECT_TRUE(actions_.empty()) << "Handle never plans";
  Turn();
  ASSERT_EQ(Taken<SendToWorker>().size(), 1u);
  EXPECT_EQ(Taken<SendToWorker>()[0].frame.step_plan().scheduled_size(), 5);
}

TEST_F(EngineTest, SaysWhenItMustBeCalled) {
  EngineOptions options = Options(1);
  Start(options);
  Turn();
  EXPECT_EQ(engine_->next_deadline(), kInstantNever);
  Join(1, "w1");
  EXPECT_EQ(engine_->next_deadline(), now_ + options.lease);
  Turn();
  EXPECT_GT(engine_->next_deadline(), now_);
  EXPECT_LE(engine_->next_deadline(), now_ + kLoadingSilenceMax) << "it loads, and may be silent";
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

TEST_F(EngineTest, ADeadlineInThePastEndsARequestAtOnce) {
  Serve(Options(1));
  Request request;
  request.id = RequestId(1);
  request.prompt = {1};
  request.max_tokens = 1;
  request.deadline = now_ - milliseconds(1);
  actions_.clear();
  Give(RequestArrived{request});
  Turn();
  ASSERT_EQ(Taken<FinishRequest>().size(), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Taken<FinishRequest>()[0].status));
  EXPECT_TRUE(Taken<SendToWorker>().empty()) << "nothing was computed for it";
}

TEST_F(EngineTest, ALengthNobodyAskedForIsWhatFits) {
  Serve(Options(1));
  Request request;
  request.id = RequestId(1);
  request.prompt.resize(1000, 1);
  request.max_tokens = 3000;
  Give(RequestArrived{request});
  EXPECT_THAT(std::string(Taken<FinishRequest>().at(0).status.message()),
              HasSubstr("need room for 3999 tokens in the KV cache, which has 1024"));
  actions_.clear();
  request.id = RequestId(2);
  request.max_tokens_is_default = true;
  Give(RequestArrived{request});
  Turn();
  EXPECT_TRUE(Taken<FinishRequest>().empty());
  request.id = RequestId(3);
  request.prompt.resize(1025, 1);
  Give(RequestArrived{request});
  EXPECT_TRUE(absl::IsInvalidArgument(Taken<FinishRequest>().at(0).status)) << "nothing fits";
}

// The second of two outputs came when more fitted, so its length is more than the pipeline of the
// first can ever hold.
TEST_F(EngineTest, AnOutputTooLongForItsGroupsPipelineGoesElsewhere) {
  EngineOptions options = Options(1);
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

TEST_F(EngineTest, AsManyPipelinesAsTheWorkersAllow) {
  EngineOptions options = Options(2);
  options.num_pipelines = 0;
  Start(options);
  Turn();
  EXPECT_EQ(Status().pipelines_size(), 1);
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("0 of 2 have joined"));
  for (uint64_t link = 1; link <= 5; ++link) Join(link, "w" + std::to_string(link));
  Turn();
  const auto status = Status();
  ASSERT_EQ(status.pipelines_size(), 2);
  EXPECT_EQ(status.pipelines(0).stages(0).worker().worker_id(), "w1");
  EXPECT_EQ(status.pipelines(1).stages(1).worker().worker_id(), "w4");
  ASSERT_EQ(status.idle_workers_size(), 1) << "one is not enough for a third";
  Join(6, "w6");
  Turn();
  EXPECT_EQ(Status().pipelines_size(), 3);
  EXPECT_EQ(Status().pipelines(2).pipeline(), 2u);
}

TEST_F(EngineTest, SurvivorsKeepTheirStages) {
  EngineOptions options = Options(2);
  options.num_pipelines = 2;
  Start(options);
  for (uint64_t link = 1; link <= 5; ++link) Join(link, "w" + std::to_string(link));
  Turn();
  actions_.clear();
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Turn();
  const auto status = Status();
  EXPECT_EQ(status.pipelines(0).stages(0).worker().worker_id(), "w5") << "the spare";
  EXPECT_EQ(status.pipelines(0).stages(1).worker().worker_id(), "w2") << "as before";
  EXPECT_EQ(status.pipelines(1).epoch(), 2u) << "nothing happened to it";
  EXPECT_EQ(status.pipelines(0).epoch(), 4u) << "an end and a beginning, counted over both";
  EXPECT_EQ(Taken<SendToWorker>().size(), 2u);
}

TEST_F(EngineTest, NoPipelineLivesOnTwoLosses) {
  EngineOptions options = Options(1);
  options.num_pipelines = 3;
  Serve(options, 3);
  Arrive(1, 10, 5);
  Turn();
  actions_.clear();
  Give(WorkerLost{LinkKey(1), absl::UnavailableError("gone")});
  Turn();
  EXPECT_TRUE(Taken<FinishRequest>().empty()) << "it begins again on the second";
  EXPECT_EQ(Status().pipelines(1).running(), 1);
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  Turn();
  ASSERT_EQ(Taken<FinishRequest>().size(), 1u) << "it may be the cause";
  EXPECT_THAT(std::string(Taken<FinishRequest>()[0].status.message()),
              HasSubstr("worker w2 (stage 0 of pipeline 1) was lost"));
  EXPECT_EQ(Status().pipelines(2).running(), 0);
}

// Eight full steps of 128 rows in 80 ms are 12,800 tokens a second: 5,000 take 390 ms.
TEST_F(EngineTest, ADeadlineThatCannotBeMetIsRefusedBeforeThePrompt) {
  EngineOptions options = Options(1);
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
    return Taken<FinishRequest>();
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

// The one whose last chunk it is has no token; of the other nothing was to be sampled yet.
TEST_F(EngineTest, WhoLostItsNumbersEndsWithTheLayersName) {
  EngineOptions options = Options(1);
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
  const auto ended = Taken<FinishRequest>();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_TRUE(absl::IsInternal(ended[0].status));
  EXPECT_THAT(std::string(ended[0].status.message()), HasSubstr("the MLP of layer 3"));
  EXPECT_THAT(std::string(ended[0].status.message()), HasSubstr("beyond what bf16 can hold"));
  EXPECT_THAT(std::string(ended[1].status.message()), HasSubstr("the head"));
  EXPECT_THAT(Taken<CloseWorker>(), testing::IsEmpty());
  v1::LookupPrefixResponse found;
  engine_->LookupPrefix(Hash128(), std::vector<TokenId>(50, 1), &found);
  EXPECT_EQ(found.holdings_size(), 0) << "keys that are no numbers are not cached";
}

TEST_F(EngineTest, SaysWhoHoldsAPrompt) {
  EngineOptions options = Options(2);
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
  EngineOptions options = Options(1);
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

TEST_F(EngineTest, LoadingTakesTooLong) {
  EngineOptions options = Options(2);
  options.load_timeout = milliseconds(2000);
  Start(options);
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  Ready(1);
  actions_.clear();
  now_ += milliseconds(1400);
  Beat(1, 1);
  Turn();
  now_ += milliseconds(600);
  Beat(1, 1);
  Turn();
  ASSERT_FALSE(Taken<ServingChanged>().empty() && Taken<SendToWorker>().empty());
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("loading on w2 took longer than 2 s"));
}

// A worker lost while others load: they are as busy as before, and get the patience that loading
// needs.
TEST_F(EngineTest, LoadersOfAnEndedEpochMayBeSilent) {
  Start(Options(2));
  Join(1, "w1");
  Join(2, "w2");
  Turn();
  now_ += milliseconds(1400);
  Beat(1, 1);
  Give(WorkerLost{LinkKey(2), absl::UnavailableError("gone")});
  now_ += milliseconds(1600);
  actions_.clear();
  Turn();
  EXPECT_TRUE(Taken<CloseWorker>().empty());
  now_ += kLoadingSilenceMax;
  Turn();
  EXPECT_EQ(Taken<CloseWorker>().size(), 1u);
}

TEST_F(EngineTest, AWorkerComesBackBeforeItsOldLinkIsSeenToBeDead) {
  Serve(Options(1));
  now_ += milliseconds(1499);
  actions_.clear();
  Join(2, "w1");
  EXPECT_TRUE(absl::IsAlreadyExists(Taken<CloseWorker>().at(0).reason));
  now_ += milliseconds(1);
  actions_.clear();
  Join(3, "w1");
  EXPECT_EQ(Taken<CloseWorker>().at(0).link, LinkKey(1)) << "its lease is over";
  EXPECT_EQ(Taken<SendToWorker>().at(0).link, LinkKey(3));
  Turn();
  EXPECT_EQ(Status().pipelines(0).state(), "loading");
}

TEST_F(EngineTest, QueueTimeIsUntilTheFirstStep) {
  EngineOptions options = Options(1);
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
  const auto finished = Taken<FinishRequest>();
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0].queue_time, Duration::zero());
  EXPECT_EQ(finished[1].queue_time, milliseconds(30));
}

// Whatever a worker sends, the engine goes on: at worst the worker is sent away.
TEST_F(EngineTest, HostileFrames) {
  Random random(11);
  const auto number = [&]() -> int64_t {
    static constexpr int64_t kEdges[] = {0,  1,   2,  3,         5,         -1,        63,
                                         64, 999, -7, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    return kEdges[random.Between(0, std::size(kEdges) - 1)];
  };
  const auto fill_done = [&](v1::StepDone* done) {
    done->set_step(number());
    done->set_compute_us(number());
    done->set_wait_us(number());
    done->mutable_activation_out()->set_bytes(number());
  };
  int sent_away = 0;
  for (int round = 0; round < 400; ++round) {
    Start(Options(2));
    uint64_t links = 0;
    for (int i = 0; i < 60; ++i) {
      now_ += milliseconds(random.Between(0, 300));
      const auto link = static_cast<uint64_t>(random.Between(1, 4));
      v1::Frame frame;
      frame.set_epoch(random.Chance(0.7) ? epoch() : static_cast<uint64_t>(number()));
      switch (random.Between(0, 11)) {
        case 0:
        case 1:
          Join(++links, "w" + std::to_string(random.Between(1, 3)));
          break;
        case 2:
        case 3:
          Ready(link);
          break;
        case 4:
          Arrive(round * 100 + i, static_cast<int32_t>(random.Between(1, 40)), 5);
          break;
        case 5: {
          v1::StepResult* const result = frame.mutable_step_result();
          result->set_step(random.Chance(0.7) ? 1 : number());
          fill_done(result->mutable_done());
          for (int64_t n = random.Between(0, 3); n > 0; --n) {
            v1::SampledToken* const sampled = result->add_sampled();
            sampled->set_sequence(number());
            sampled->set_position(static_cast<int32_t>(number()));
            sampled->set_token(static_cast<int32_t>(number()));
          }
          if (random.Chance(0.3)) result->add_poisoned(number());
          Send(link, frame);
          break;
        }
        case 6:
          fill_done(frame.mutable_step_done());
          Send(link, frame);
          break;
        case 7:
          frame.mutable_shard_progress()->set_loaded_bytes(number());
          frame.mutable_shard_progress()->set_total_bytes(number());
          Send(link, frame);
          break;
        case 8:
          Beat(link, static_cast<uint64_t>(number()));
          break;
        case 9:
          if (random.Chance(0.5)) frame.mutable_activation();
          if (random.Chance(0.3)) frame.mutable_hello();
          Send(link, frame);
          break;
        case 10:
          frame.mutable_failure()->set_message(std::string(100, '\0'));
          Send(link, frame);
          break;
        default:
          Give(WorkerLost{LinkKey(link), absl::OkStatus()});
      }
      if (random.Chance(0.7)) Turn();
      Status();
    }
    sent_away += static_cast<int>(Taken<CloseWorker>().size());
    actions_.clear();
  }
  EXPECT_GT(sent_away, 400);
}

// Two ranks feed one; stage 0 is w1 and w2, stage 1 is w3.
class RanksEngineTest : public EngineTest {
 protected:
  void SetUp() override { ServeRanks({2, 1}); }
  void ServeRanks(const std::vector<int32_t>& ranks) {
    EngineOptions options = Options(static_cast<int32_t>(ranks.size()));
    options.stage_ranks = ranks;
    Serve(options, std::accumulate(ranks.begin(), ranks.end(), uint64_t{0}));
    for (const SendToWorker& sent : Taken<SendToWorker>()) {
      if (sent.frame.has_assign_shard()) assigned_.push_back(sent.frame.assign_shard());
    }
    Turn();
  }
  // Worker `link` has done step `step`.
  void Done(uint64_t link, uint64_t step, int64_t exchange_wait_us = 0) {
    v1::Frame frame;
    frame.set_epoch(epoch());
    frame.mutable_step_done()->set_step(step);
    frame.mutable_step_done()->set_compute_us(1000);
    frame.mutable_step_done()->set_exchange_wait_us(exchange_wait_us);
    frame.mutable_step_done()->mutable_exchange_out()->set_bytes(4096);
    Send(link, frame);
  }
  void BeatWaiting(uint64_t link, const std::string& waiting_for) {
    v1::Frame frame;
    frame.mutable_beat()->set_progress(0);
    frame.mutable_beat()->set_waiting_for(waiting_for);
    Send(link, frame);
  }
  std::vector<v1::AssignShard> assigned_;
};

TEST_F(RanksEngineTest, AStageIsSharedByItsRanks) {
  ASSERT_EQ(assigned_.size(), 3u);
  for (int rank = 0; rank < 2; ++rank) {
    const v1::AssignShard& shard = assigned_[rank];
    EXPECT_EQ(shard.stage(), 0);
    EXPECT_EQ(shard.num_stages(), 2);
    EXPECT_EQ(shard.rank(), rank);
    EXPECT_EQ(shard.num_ranks(), 2);
    EXPECT_THAT(shard.rank_worker_ids(), testing::ElementsAre("w1", "w2"));
  }
  EXPECT_THAT(assigned_[0].next_worker_ids(), testing::ElementsAre("w3"));
  EXPECT_THAT(assigned_[1].next_worker_ids(), testing::IsEmpty()) << "it has the same activation";
  EXPECT_EQ(assigned_[2].previous_worker_id(), "w1");
  EXPECT_EQ(assigned_[2].num_ranks(), 1);
  EXPECT_TRUE(assigned_[2].rank_worker_ids().empty());

  const v1::GetStatusResponse status = Status();
  EXPECT_TRUE(status.serving());
  ASSERT_EQ(status.pipelines(0).stages_size(), 3);
  EXPECT_EQ(status.pipelines(0).stages(1).stage(), 0);
  EXPECT_EQ(status.pipelines(0).stages(1).rank(), 1);
  EXPECT_EQ(status.pipelines(0).stages(1).num_ranks(), 2);
  EXPECT_EQ(status.pipelines(0).stages(2).stage(), 1);
}

TEST_F(RanksEngineTest, EveryRankTellsWhatItHasDone) {
  Arrive(1, 5, 2);
  Turn();
  now_ += milliseconds(10);
  Done(1, 1, 400);
  Done(2, 1);
  v1::Frame frame = ResultFrame(epoch(), /*step=*/1);
  v1::StepResult* const result = frame.mutable_step_result();
  result->add_sampled()->set_sequence(1);
  result->mutable_sampled(0)->set_position(5);
  result->mutable_sampled(0)->set_token(9);
  // Not from a rank that does not tell results.
  v1::Frame wrong = frame;
  Send(3, frame);
  Turn();
  EXPECT_THAT(Taken<CloseWorker>(), testing::IsEmpty());
  EXPECT_GT(Status().pipelines(0).stages(0).exchange_wait_share(), 0);
  EXPECT_EQ(Status().pipelines(0).stages(1).exchange_bytes_out(), 4096);
  wrong.mutable_step_result()->set_step(2);
  Send(2, wrong);
  Turn();
  ASSERT_EQ(Taken<CloseWorker>().size(), 1u);
  EXPECT_EQ(Taken<CloseWorker>()[0].link, LinkKey(2));
}

// The way from w1 to w2 is cut. So w2 waits for w1, which has done the step and fed w3; w3 waits
// for w4, which w2 should have fed. All give up after the same time, and w3 is heard of first.
TEST_F(RanksEngineTest, WhoGivesUpIsNotToBlameForWhatStopsTheStageBefore) {
  ServeRanks({2, 2});
  Arrive(1, 5, 2);
  Turn();
  Done(1, 1);
  BeatWaiting(1, "");
  BeatWaiting(2, "w1");
  BeatWaiting(3, "w4");
  BeatWaiting(4, "");
  actions_.clear();
  v1::Frame failure;
  failure.set_epoch(epoch());
  failure.mutable_failure()->set_message("nothing came from rank 1 (w4)");
  Send(3, failure);
  Turn();
  ASSERT_EQ(Taken<CloseWorker>().size(), 1u);
  EXPECT_EQ(Taken<CloseWorker>()[0].link, LinkKey(1)) << "an end of the way that is cut";
  EXPECT_THAT(Status().why_not_serving(),
              HasSubstr("worker w1 (stage 0 rank 0) was lost: w3 failed: nothing came from"));
}

TEST_F(RanksEngineTest, RanksThatWaitForEachOtherAreBothToBlame) {
  Arrive(1, 5, 2);
  Turn();
  BeatWaiting(1, "w2");
  BeatWaiting(2, "w1");
  v1::Frame failure;
  failure.set_epoch(epoch());
  failure.mutable_failure()->set_message("nothing came from rank 0 (w1)");
  actions_.clear();
  Send(2, failure);
  ASSERT_EQ(Taken<CloseWorker>().size(), 1u);
  EXPECT_LE(Taken<CloseWorker>()[0].link, LinkKey(2));
}

TEST_F(RanksEngineTest, WhoClaimsToWaitForItselfIsStuck) {
  Arrive(1, 5, 2);
  Turn();
  Done(2, 1);
  for (int i = 0; i < 20 && Taken<CloseWorker>().empty(); ++i) {
    now_ += milliseconds(250);
    BeatWaiting(1, "w1");
    BeatWaiting(2, "w1");
    BeatWaiting(3, "");
    Turn();
  }
  ASSERT_EQ(Taken<CloseWorker>().size(), 1u);
  EXPECT_EQ(Taken<CloseWorker>()[0].link, LinkKey(1));
}

// Both ranks beat and neither gets on; the one that waits for the other is not to blame.
TEST_F(RanksEngineTest, TheRankThatOthersWaitForIsStuck) {
  Arrive(1, 5, 2);
  Turn();
  for (int i = 0; i < 20 && Taken<CloseWorker>().empty(); ++i) {
    now_ += milliseconds(250);
    BeatWaiting(1, "w2");
    BeatWaiting(2, "");
    BeatWaiting(3, "");
    Turn();
  }
  ASSERT_EQ(Taken<CloseWorker>().size(), 1u);
  EXPECT_EQ(Taken<CloseWorker>()[0].link, LinkKey(2));
  EXPECT_THAT(Status().why_not_serving(), HasSubstr("worker w2 (stage 0 rank 1) was lost"));
}

}  // namespace
}  // namespace tutti::coordinator
