// One voice, at the level of stages: tokens and the bits of their log-probabilities do not depend
// on the number of stages, the chunks of prompts, the rest of the batch, the blocks of a sequence
// or the number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "model/config_json.h"
#include "model/partition.h"
#include "worker/pipeline_testing.h"
#include "worker/sampling/toy_vocabulary_testing.h"

namespace tutti::worker {
namespace {

// Sixteen requests with all kinds of sampling, five of them by grammars.
std::vector<TestRequest> Requests(int64_t vocab) {
  std::vector<TestRequest> requests;
  Random random(2024);
  for (int i = 0; i < 16; ++i) {
    TestRequest request;
    const int64_t length = i == 0 ? 1 : random.Between(1, 45);
    for (int64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.Between(0, vocab - 1)));
    }
    request.max_tokens = static_cast<int32_t>(random.Between(3, 12));
    request.sampling.set_logprobs(true);
    request.sampling.set_top_logprobs(i % 4);
    request.sampling.set_temperature(i % 3 == 0 ? 0.f : 0.5f + 0.1f * static_cast<float>(i));
    request.sampling.set_seed(1000 + i);
    if (i % 2 == 1) request.sampling.set_top_p(0.9f);
    if (i % 4 == 2) request.sampling.set_top_k(20);
    if (i % 5 == 3) request.sampling.set_repetition_penalty(1.2f);
    if (i % 3 == 1) SetToyGrammar(i / 3, &request.sampling);
    requests.push_back(request);
  }
  return requests;
}

// The same, short enough for a backend that is slow.
std::vector<TestRequest> ShortRequests(int64_t vocab) {
  std::vector<TestRequest> requests = Requests(vocab);
  for (TestRequest& request : requests) {
    request.prompt.resize(std::min<size_t>(request.prompt.size(), 10));
    request.max_tokens = 1 + request.max_tokens % 3;
  }
  return requests;
}

struct Case {
  std::string checkpoint;
  std::string backend;
  std::vector<std::vector<int32_t>> splits;
};

class OneVoiceTest : public ::testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<TestPipeline> Pipeline(const std::vector<int32_t>& layers = {}, int threads = 1,
                                         int32_t block_size = 16, int32_t max_batch_tokens = 128) {
    return std::make_unique<TestPipeline>(
        TestPipelineOptions{.model_dir = GoldenDir(GetParam().checkpoint),
                            .backend = GetParam().backend,
                            .threads = threads,
                            .layers = layers,
                            .block_size = block_size,
                            .num_blocks = 128,
                            .max_batch_tokens = max_batch_tokens});
  }

  // Each request alone, on one stage with one thread, its prompt in one piece. The tests of one
  // case share the answers.
  void SetUp() override {
    static auto* const known = new std::map<std::string, std::vector<std::vector<uint32_t>>>();
    const int64_t vocab = model::LoadModelConfig(GoldenDir(GetParam().checkpoint))->vocab_size;
    requests_ = slow_ ? ShortRequests(vocab) : Requests(vocab);
    auto& answers = (*known)[GetParam().checkpoint + " on " + GetParam().backend];
    expected_ = &answers;
    if (!answers.empty()) return;
    auto pipeline = Pipeline();
    for (const TestRequest& request : requests_) {
      answers.push_back(pipeline->Generate({request}, 0)[0].bits());
    }
  }

  void ExpectSame(TestPipeline& pipeline, int32_t chunk, uint64_t block_seed) {
    const auto outputs = pipeline.Generate(requests_, chunk, block_seed);
    for (size_t i = 0; i < requests_.size(); ++i) {
      EXPECT_EQ(outputs[i].bits(), (*expected_)[i]) << "request " << i << ", chunk " << chunk;
    }
  }

  const bool slow_ = IsSlow(GetParam().backend);
  std::vector<TestRequest> requests_;
  const std::vector<std::vector<uint32_t>>* expected_ = nullptr;
};

TEST_P(OneVoiceTest, InABatchInChunksOfAnySize) {
  auto pipeline = Pipeline();
  for (const int32_t chunk : {1, 2, 7, 16, 33, 0}) {
    if (slow_ && chunk % 7 != 0) continue;
    ExpectSame(*pipeline, chunk, chunk);
  }
}

TEST_P(OneVoiceTest, OverAnyNumberOfStages) {
  for (const auto& layers : GetParam().splits) {
    SCOPED_TRACE(::testing::PrintToString(layers));
    auto pipeline = Pipeline(layers);
    if (!slow_) ExpectSame(*pipeline, 5, 1);
    ExpectSame(*pipeline, 0, 2);
  }
}

TEST_P(OneVoiceTest, OverAnyNumberOfRanks) {
  model::ModelConfig config = *model::LoadModelConfig(GoldenDir(GetParam().checkpoint));
  for (const bool whole_experts : {false, true}) {
    config.whole_experts = whole_experts;
    for (const int ranks : {2, 4, 8}) {
      if (slow_ && ranks != 2) continue;
      if (!model::CheckRanks(config, ranks).ok() || (whole_experts && !config.has_experts()))
        continue;
      TestPipeline pipeline({.model_dir = GoldenDir(GetParam().checkpoint),
                             .backend = GetParam().backend,
                             .ranks = {ranks},
                             .whole_experts = whole_experts,
                             .num_blocks = 128});
      ExpectSame(pipeline, 6, 2);
      if (!whole_experts || GetParam().backend != "cpu") continue;
      // 7 experts: shares differ. The bytes promised are the bytes held.
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_NEAR(
            pipeline.ready(0, rank).weight_bytes(),
            model::ComputeShardBytes(config, model::WholeModel(config), ranks, rank).total(), 4096)
            << rank << " of " << ranks;
      }
    }
  }
}

// Sums and experts' rows move from device to device; the bits are those of one rank.
TEST_P(OneVoiceTest, OverRanksWhoseDevicesExchange) {
  if (GetParam().backend != "cuda-emulated") GTEST_SKIP() << "no devices that exchange";
  model::ModelConfig config = *model::LoadModelConfig(GoldenDir(GetParam().checkpoint));
  for (const bool whole_experts : {false, true}) {
    config.whole_experts = whole_experts;
    for (const int ranks : {2, 4}) {
      if (!model::CheckRanks(config, ranks).ok() || (whole_experts && !config.has_experts()))
        continue;
      TestPipeline pipeline({.model_dir = GoldenDir(GetParam().checkpoint),
                             .backend = GetParam().backend,
                             .ranks = {ranks},
                             .whole_experts = whole_experts,
                             .device_exchange = true,
                             .num_blocks = 128});
      EXPECT_TRUE(pipeline.on_device(0));
      ExpectSame(pipeline, 6, 2);
    }
  }
}

// Rows pass from stage to stage on the devices, some steps' through the host in between.
TEST_P(OneVoiceTest, OverStagesWhoseDevicesAreLinked) {
  if (GetParam().backend != "cuda-emulated") GTEST_SKIP() << "no devices that link";
  const model::ModelConfig config = *model::LoadModelConfig(GoldenDir(GetParam().checkpoint));
  for (const std::vector<int>& ranks : {std::vector<int>{2, 1}, {1, 2}}) {
    if (!model::CheckRanks(config, std::max(ranks[0], ranks[1])).ok()) continue;
    TestPipeline pipeline({.model_dir = GoldenDir(GetParam().checkpoint),
                           .backend = GetParam().backend,
                           .layers = {1, 1},
                           .ranks = ranks,
                           .device_exchange = ranks[0] == 2,
                           .device_links = true,
                           .num_blocks = 128});
    ExpectSame(pipeline, 6, 2);
    EXPECT_GT(pipeline.steps_on_device(0), 0);
  }
}

// Everything that looks at the tokens before: penalties, ends that come late, rows of tokens that
// must not come.
std::vector<TestRequest> WithHistory(std::vector<TestRequest> requests, bool slow) {
  // The shortest context of a checkpoint here.
  constexpr int32_t kContext = 64;
  for (size_t i = 0; i < requests.size(); ++i) {
    v1::SequenceSampling& sampling = requests[i].sampling;
    requests[i].max_tokens = std::min(requests[i].max_tokens + (slow ? 4 : 12),
                                      kContext - static_cast<int32_t>(requests[i].prompt.size()));
    if (i % 2 == 0) sampling.set_frequency_penalty(0.3f);
    if (i % 4 == 3) sampling.set_presence_penalty(-0.5f);
    if (sampling.has_grammar()) continue;
    for (TokenId id = 0; i % 3 == 0 && id < 24; ++id) sampling.add_allowed_ids(id);
    for (TokenId id = 0; i % 6 == 0 && id < 23; ++id) {
      v1::BannedTokens* const banned = sampling.add_banned();
      banned->add_ids(id);
      banned->add_ids(id + 1);
    }
    if (i % 6 != 0) continue;
    sampling.set_min_tokens(4);
    sampling.add_end_ids(5);
  }
  return requests;
}

// Tokens are guessed, many of them right: over stages, ranks, chunks and blocks.
TEST_P(OneVoiceTest, WithGuesses) {
  std::vector<TestRequest> requests = WithHistory(requests_, slow_);
  std::vector<std::vector<uint32_t>> expected;
  auto alone = Pipeline();
  for (TestRequest& request : requests) {
    const TestOutput output = alone->Generate({request}, 0)[0];
    expected.push_back(output.bits());
    request.likely = output.ids();
  }
  const auto expect_same = [&](TestPipeline& pipeline, int32_t chunk, uint64_t seed) {
    const auto outputs = pipeline.Generate(requests, chunk, seed);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(outputs[i].bits(), expected[i]) << "request " << i << ", seed " << seed;
    }
    EXPECT_GT(pipeline.guessed_right(), slow_ ? 5 : 30) << seed;
    EXPECT_GT(pipeline.guessed() - pipeline.guessed_right(), slow_ ? 2 : 30) << seed;
  };
  expect_same(*alone, 0, 1);
  expect_same(*Pipeline(GetParam().splits[0], 2), 7, 2);
  if (slow_) return;
  for (const auto& layers : GetParam().splits) expect_same(*Pipeline(layers, 1, 32), 0, 3);
  const model::ModelConfig& config = alone->config();
  for (const int ranks : {2, 4}) {
    if (!model::CheckRanks(config, ranks).ok()) continue;
    TestPipeline pipeline({.model_dir = GoldenDir(GetParam().checkpoint),
                           .backend = GetParam().backend,
                           .ranks = {ranks},
                           .num_blocks = 128});
    expect_same(pipeline, 6, 4);
  }
  expect_same(*Pipeline({}, 1, 16, 20), 0, 5);
}

TEST_P(OneVoiceTest, OnAnyNumberOfThreads) {
  if (GetParam().backend != "cpu") GTEST_SKIP() << "it has no threads of its own";
  for (const int threads : {2, 3, 5}) {
    auto pipeline = Pipeline({}, threads);
    ExpectSame(*pipeline, 0, 3);
  }
}

TEST_P(OneVoiceTest, WithAnyBlockSizeAndBudget) {
  if (!slow_) ExpectSame(*Pipeline({}, 1, 32, 128), 0, 4);
  ExpectSame(*Pipeline({}, 1, 48, 20), 0, 5);
}

// Draws everything at once. TUTTI_SEED repeats a run.
TEST_P(OneVoiceTest, UnderRandomChoices) {
  const char* given = std::getenv("TUTTI_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("TUTTI_SEED=" + std::to_string(seed));
  Random random(seed);
  for (int round = 0; round < (slow_ ? 1 : 4); ++round) {
    const auto& splits = GetParam().splits;
    auto pipeline = Pipeline(splits[random.Between(0, static_cast<int64_t>(splits.size()) - 1)],
                             static_cast<int>(random.Between(1, 3)),
                             static_cast<int32_t>(16 * random.Between(1, 4)),
                             static_cast<int32_t>(random.Between(16, 200)));
    ExpectSame(*pipeline, static_cast<int32_t>(random.Between(0, 50)), random.Bits());
  }
}

std::vector<Case> CasesOf(const std::string& backend) {
  // The reference backend is slow; its smallest model says as much about the stages around it.
  if (backend == "reference") return {{"narrow-untied-bf16", backend, {{1, 1}}}};
  // So is an emulated GPU, whose own operators these need.
  if (IsSlow(backend)) {
    return {{"families/qwen3-moe-bf16", backend, {{1, 1}}},
            {"families/saved-llama-biases", backend, {{1, 1}}},
            {"families/chatglm3-128k-f16", backend, {{1, 1}}}};
  }
  std::vector<Case> cases;
  // Every family has operators of its own, or an order of its heads.
  for (const char* family :
       {"qwen2-yarn-bf16", "llama3-bf16", "qwen3-moe-f32", "qwen3-moe-bf16", "qwen1-f32",
        "qwen1-bf16", "chatglm3-128k-f16", "saved-llama-biases", "saved-llama-dynamic",
        "saved-qwen2-widened", "saved-qwen3-moe-step-2", "saved-qwen3-narrowed"}) {
    cases.push_back({std::string("families/") + family, backend, {{1, 1}}});
  }
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    cases.push_back({std::string("single-kv-tied-") + dtype,
                     backend,
                     {{5}, {2, 3}, {1, 4}, {4, 1}, {2, 2, 1}, {1, 1, 1, 2}, {1, 1, 1, 1, 1}}});
    cases.push_back({std::string("grouped-tied-") + dtype, backend, {{3}, {1, 2}, {1, 1, 1}}});
  }
  return cases;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& backend : TestedBackends()) {
    for (const Case& one : CasesOf(backend)) cases.push_back(one);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, OneVoiceTest, ::testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name = info.param.checkpoint + "_" + info.param.backend;
  for (char& c : name) c = c == '-' || c == '/' || c == ':' ? '_' : c;
  return name;
});

// A layer of a large model can take longer than a lease: its products, its attention and each of
// its experts show.
TEST(Progress, ShowsWithEveryLargeOperator) {
  TestPipeline pipeline({.model_dir = GoldenDir("families/qwen3-moe-f32"), .backend = "cpu"});
  const uint64_t before = pipeline.progress(0);
  pipeline.Generate({{.prompt = {1, 2, 3}, .max_tokens = 1}}, 0);
  const model::ModelConfig& config = pipeline.config();
  EXPECT_GE(pipeline.progress(0) - before,
            static_cast<uint64_t>(config.num_layers * (4 + config.experts_per_token)));
}

}  // namespace
}  // namespace tutti::worker
