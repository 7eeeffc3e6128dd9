// Numbers that f16 cannot hold: checkpoints whose residual stream, MLP and logits grow beyond
// 65,504 (real ChatGLM3 and Qwen checkpoints in f16 do) give the answers of the same weights in
// f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kernels/float_formats.h"
#include "model/checkpoint.h"
#include "model/checkpoint_testing.h"
#include "model/partition.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

constexpr float kLargestF16 = 65504;

// Factors of all tensors with such ends of their names.
using Factors = std::map<std::string, float>;

// A golden f16 checkpoint with some tensors multiplied, written as f16 or, the same values, as f32.
void WriteScaled(const std::string& golden, const Factors& factors, DType dtype,
                 const TempDir& dir) {
  const std::string from = GoldenDir("families/" + golden);
  const std::string config = ReadFileOrDie(from + "/config.json");
  ASSERT_TRUE(absl::StrContains(config, "float16"));
  dir.Write("config.json",
            dtype == DType::kF16 ? config : absl::StrReplaceAll(config, {{"float16", "float32"}}));
  auto checkpoint = *model::Checkpoint::Open(from);
  std::vector<model::TensorInfo> tensors = checkpoint->tensors();
  std::string bytes;
  for (model::TensorInfo& tensor : tensors) {
    const std::vector<std::byte> read = *checkpoint->Read(tensor.name);
    const std::byte* const values = read.data();
    float factor = 1;
    for (const auto& [end, by] : factors) {
      if (absl::EndsWith(tensor.name, end)) factor = by;
    }
    const int64_t count = tensor.bytes / 2;
    tensor.dtype = model::StoredTypeOf(dtype);
    tensor.bytes = count * DTypeBytes(dtype);
    const size_t begin = bytes.size();
    bytes.resize(begin + static_cast<size_t>(tensor.bytes));
    for (int64_t i = 0; i < count; ++i) {
      const float value = factor * kernels::LoadAsF32(values, DType::kF16, i);
      ASSERT_LE(std::abs(value), kLargestF16) << tensor.name;
      kernels::StoreFromF32(bytes.data() + begin, dtype, i, kernels::RoundTo(DType::kF16, value));
    }
  }
  dir.Write("model.safetensors", model::MakeSafetensorsHeader(tensors) + bytes);
}

std::vector<TestRequest> Requests(float temperature, int32_t max_tokens = 12) {
  std::vector<TestRequest> requests(3);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t t = 0; t < 5 + 13 * i; ++t) {
      requests[i].prompt.push_back(static_cast<TokenId>((7 * i + 31 * t * t + 11 * t) % 163));
    }
    requests[i].max_tokens = max_tokens;
    requests[i].sampling.set_temperature(temperature);
    requests[i].sampling.set_seed(i);
    requests[i].sampling.set_logprobs(true);
    requests[i].sampling.set_top_logprobs(3);
  }
  return requests;
}

struct Case {
  const char* golden;
  std::string backend;
  Factors factors;
};

class LargeValuesTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    WriteScaled(GetParam().golden, GetParam().factors, DType::kF16, f16_);
    WriteScaled(GetParam().golden, GetParam().factors, DType::kF32, f32_);
  }

  TestPipeline Pipeline(const TempDir& dir, std::vector<int32_t> layers) {
    return TestPipeline(
        {.model_dir = dir.path(), .backend = GetParam().backend, .layers = std::move(layers)});
  }

  // As many as the backend computes in a second or two.
  std::vector<TestRequest> OfTemperature(float temperature) {
    return Requests(temperature, slow_ ? 3 : 12);
  }

  const bool slow_ = IsSlow(GetParam().backend);
  TempDir f16_, f32_;
};

TEST_P(LargeValuesTest, AnswersAreThoseOfTheSameWeightsInF32) {
  TestPipeline wide = Pipeline(f32_, {2});
  TestPipeline own = Pipeline(f16_, {2});
  const std::vector<float> expected = wide.LastLogits(Requests(0)[1].prompt, 0);
  const std::vector<float> logits = own.LastLogits(Requests(0)[1].prompt, 0);
  float largest = 0, distance = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    ASSERT_TRUE(std::isfinite(logits[i]));
    largest = std::max(largest, std::abs(expected[i]));
    distance = std::max(distance, std::abs(logits[i] - expected[i]));
  }
  EXPECT_GT(largest, kLargestF16) << "the weights are not large enough to show anything";
  // Only keys and values are f16 here, on GPUs also the inputs of products: 2^-11 of what they
  // add.
  EXPECT_LT(distance, 0.01f * largest);
  const std::vector<TestOutput> right = wide.Generate(OfTemperature(0), 7);
  const std::vector<TestOutput> greedy = own.Generate(OfTemperature(0), 7);
  for (size_t i = 0; i < right.size(); ++i) EXPECT_EQ(greedy[i].ids(), right[i].ids()) << i;
}

// Below kGreedyTemperature and above it: the differences between such logits leave no other choice.
TEST_P(LargeValuesTest, TemperaturesNearZeroAreGreedy) {
  TestPipeline pipeline = Pipeline(f16_, {2});
  const std::vector<TestOutput> greedy = pipeline.Generate(OfTemperature(0), 0);
  for (const float temperature : {1e-30f, 1e-6f, 1.1e-5f, 1e-3f, 0.01f}) {
    if (slow_ && temperature != 1.1e-5f) continue;
    const std::vector<TestOutput> outputs = pipeline.Generate(OfTemperature(temperature), 0);
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].ids(), greedy[i].ids()) << temperature;
      for (const v1::SampledToken& token : outputs[i].tokens) {
        EXPECT_TRUE(std::isfinite(token.logprob()) && token.logprob() <= 0);
        for (const float value : token.top_logprobs()) EXPECT_TRUE(std::isfinite(value));
      }
    }
  }
}

TEST_P(LargeValuesTest, StagesAndRanksDoNotShow) {
  TestPipeline one = Pipeline(f16_, {2});
  TestPipeline two = Pipeline(f16_, {1, 1});
  std::vector<TestPipeline*> pipelines = {&two};
  std::unique_ptr<TestPipeline> ranks;
  if (model::CheckRanks(one.config(), 2).ok()) {
    ranks = std::make_unique<TestPipeline>(
        TestPipelineOptions{.model_dir = f16_.path(), .backend = GetParam().backend, .ranks = {2}});
    pipelines.push_back(ranks.get());
  }
  const auto expected = one.Generate(OfTemperature(0), 0);
  for (TestPipeline* pipeline : pipelines) {
    const auto outputs = pipeline->Generate(OfTemperature(0), 5);
    for (size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_EQ(outputs[i].ids(), expected[i].ids());
      for (size_t t = 0; t < outputs[i].tokens.size(); ++t) {
        EXPECT_EQ(std::bit_cast<uint32_t>(outputs[i].tokens[t].logprob()),
                  std::bit_cast<uint32_t>(expected[i].tokens[t].logprob()));
      }
    }
  }
}

// Keys of a layer beyond what an f16 cache holds: the request ends, and says which layer.
class BeyondTheCacheTest : public ::testing::TestWithParam<std::string> {};

TEST_P(BeyondTheCacheTest, TheLayerIsNamed) {
  for (const int layer : {0, 1}) {
    TempDir dir;
    const std::string key = absl::StrCat("layers.", layer, ".self_attn.k_proj.weight");
    WriteScaled("llama3-f16", {{key, 65536}}, DType::kF16, dir);
    for (const std::vector<int32_t>& layers : {std::vector<int32_t>{2}, {1, 1}}) {
      TestPipeline pipeline({.model_dir = dir.path(), .backend = GetParam(), .layers = layers});
      for (const int32_t chunk : {3, 7, 18}) {
        const v1::StepResult result = pipeline.FirstFault(Requests(0)[1].prompt, chunk);
        ASSERT_EQ(result.faults_size(), 1) << chunk;
        EXPECT_EQ(result.faults(0).layer(), layer);
        EXPECT_FALSE(result.faults(0).in_mlp());
        // A stage that sends rows on sees it at once; the last one when it samples.
        const bool sampled = chunk == 18 || layers.size() == 1 || layer == 1;
        EXPECT_EQ(result.poisoned_size(), sampled ? 1 : 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BeyondTheCacheTest, ::testing::ValuesIn(TestedBackends()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param, {{"-", "_"}, {":", "_"}});
                         });

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& backend : TestedBackends()) {
    // MLPs whose inside grows beyond f16, and layers that add as much to the residual.
    cases.push_back({"chatglm3-f16",
                     backend,
                     {{"dense_h_to_4h.weight", 1024},
                      {"dense_4h_to_h.weight", 4096},
                      {"dense.weight", 8192},
                      {"output_layer.weight", 8192}}});
    cases.push_back({"qwen1-f16",
                     backend,
                     {{"w1.weight", 1024},
                      {"w2.weight", 1024},
                      {"c_proj.weight", 4096},
                      {"lm_head.weight", 8192}}});
    cases.push_back({"qwen3-moe-f16",
                     backend,
                     {{"o_proj.weight", 8192},
                      {"up_proj.weight", 4096},
                      {"down_proj.weight", 4096},
                      {"lm_head.weight", 8192}}});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, LargeValuesTest, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return absl::StrReplaceAll(absl::StrCat(info.param.golden, "_", info.param.backend),
                             {{"-", "_"}, {":", "_"}});
});

}  // namespace
}  // namespace tutti::worker
