// Our logits against those of HuggingFace transformers, for the checkpoints in tests/golden (see
// its README).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

using nlohmann::json;

constexpr double kF32Tolerance = 1e-3;
constexpr double kOwnDistances = 2;

std::vector<float> DecodeFloats(const std::string& base64) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(base64, &bytes));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

struct Case {
  std::string checkpoint;
  std::string backend;
};

class GoldenLogitsTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    golden_ = json::parse(ReadFileOrDie(GoldenDir(GetParam().checkpoint) + "/golden.json"));
    pipeline_ = std::make_unique<TestPipeline>(TestPipelineOptions{
        .model_dir = GoldenDir(GetParam().checkpoint), .backend = GetParam().backend});
  }

  json golden_;
  std::unique_ptr<TestPipeline> pipeline_;
};

// Greedy tokens are compared in f32 only: 16-bit runs may part at near ties.
class GoldenTokensTest : public GoldenLogitsTest {};

TEST_P(GoldenLogitsTest, LogitsAreThoseOfTheReferenceImplementation) {
  const int64_t vocab = golden_["vocab_size"];
  const double own_distance = golden_["own_max_abs_distance"];
  double largest = 0;
  for (const json& prompt : golden_["prompts"]) {
    const std::vector<float> expected = DecodeFloats(prompt["logits"]);
    const auto logits = pipeline_->Logits(prompt["ids"].get<std::vector<TokenId>>());
    const size_t positions = prompt["positions"];
    ASSERT_EQ(expected.size(), positions * vocab);
    for (size_t p = 0; p < positions; ++p) {
      const auto& row = logits[logits.size() - positions + p];
      ASSERT_EQ(row.size(), static_cast<size_t>(vocab));
      for (int64_t i = 0; i < vocab; ++i) {
        ASSERT_TRUE(std::isfinite(row[i]));
        largest = std::max<double>(largest, std::abs(row[i] - expected[p * vocab + i]));
      }
    }
  }
  const bool f32 = golden_["dtype"] == "f32";
  std::printf("%s on %s: %g from the f32 run, own run %g\n", GetParam().checkpoint.c_str(),
              GetParam().backend.c_str(), largest, own_distance);
  EXPECT_LE(largest, f32 ? kF32Tolerance : kOwnDistances * own_distance);
}

TEST_P(GoldenTokensTest, GreedyTokensAreEqual) {
  std::vector<TestRequest> requests;
  for (const json& prompt : golden_["prompts"]) {
    requests.push_back(
        {.prompt = prompt["ids"], .max_tokens = static_cast<int32_t>(prompt["greedy_ids"].size())});
  }
  // Short prompts and long ones; slow backends do the short ones.
  if (IsSlow(GetParam().backend)) requests.resize(3);
  if (GetParam().backend == "cuda-emulated") requests.resize(1);
  const std::vector<TestOutput> outputs = pipeline_->Generate(requests, /*chunk=*/7);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(outputs[i].ids(), golden_["prompts"][i]["greedy_ids"].get<std::vector<TokenId>>());
  }
}

// The demo model: transformers kept its 32 largest logits of each prompt, and its answers.
class GoldenDemoTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenDemoTest, LogitsAndAnswersAreThoseOfTheReferenceImplementation) {
  const json golden = json::parse(ReadFileOrDie(GoldenDir("demo") + "/golden.json"));
  TestPipeline pipeline({.model_dir = GoldenDir("../../" + golden["model"].get<std::string>()),
                         .backend = GetParam(),
                         .layers = {1, 1, 2}});
  size_t prompts_left = IsSlow(GetParam()) ? 1 : golden["prompts"].size();
  double largest = 0;
  for (const json& prompt : golden["prompts"]) {
    if (prompts_left-- == 0) break;
    const auto ids = prompt["ids"].get<std::vector<TokenId>>();
    const std::vector<float> expected = DecodeFloats(prompt["top_logits"]);
    const std::vector<float> row = pipeline.Logits(ids).back();
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto id = prompt["top_ids"][i].get<size_t>();
      largest = std::max<double>(largest, std::abs(row[id] - expected[i]));
    }
    const auto answer = prompt["own_greedy_ids"].get<std::vector<TokenId>>();
    const auto output = pipeline.Generate(
        {{.prompt = ids, .max_tokens = static_cast<int32_t>(answer.size())}}, /*chunk=*/4);
    EXPECT_EQ(output[0].ids(), answer) << prompt["text"];
  }
  const double own_distance = golden["own_top_max_abs_distance"];
  std::printf("demo on %s: %g from the f32 run, own run %g\n", GetParam().c_str(), largest,
              own_distance);
  EXPECT_LE(largest, kOwnDistances * own_distance);
}

std::string Named(std::string name) {
  for (char& c : name) c = c == '-' || c == ':' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenDemoTest, ::testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return Named(info.param); });

// The emulated GPU takes a while: it computes `emulated` instead of everything.
std::vector<Case> Cases(const std::vector<std::string>& dtypes,
                        const std::vector<std::string>& emulated) {
  std::vector<Case> cases;
  for (const std::string& backend : TestedBackends()) {
    if (backend == "cuda-emulated") {
      for (const std::string& checkpoint : emulated) cases.push_back({checkpoint, backend});
      continue;
    }
    for (const char* shape :
         {"grouped-tied", "narrow-untied", "single-kv-tied", "one-layer-untied"}) {
      for (const std::string& dtype : dtypes) {
        cases.push_back({std::string(shape) + "-" + dtype, backend});
      }
    }
  }
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  return Named(info.param.checkpoint + "_" + info.param.backend);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenLogitsTest,
                         ::testing::ValuesIn(Cases({"f32", "bf16", "f16"},
                                                   {"narrow-untied-f16", "single-kv-tied-bf16"})),
                         CaseName);
INSTANTIATE_TEST_SUITE_P(Sharded, GoldenLogitsTest,
                         ::testing::Values(Case{"grouped-tied-bf16-sharded", "cpu"}), CaseName);
INSTANTIATE_TEST_SUITE_P(All, GoldenTokensTest,
                         ::testing::ValuesIn(Cases({"f32"}, {"one-layer-untied-f32"})), CaseName);

// Every family: logits at the end of prompts on both sides of all its switches, and the tokens that
// follow.
class GoldenFamilyTest : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenFamilyTest, LogitsAndTokensAreThoseOfTheReferenceImplementation) {
  const std::string dir = GoldenDir("families/" + GetParam().checkpoint);
  const json golden = json::parse(ReadFileOrDie(dir + "/golden.json"));
  TestPipeline pipeline({.model_dir = dir, .backend = GetParam().backend, .layers = {1, 1}});
  const bool f32 = golden["dtype"] == "f32";
  const double own_distance = golden["own_max_abs_distance"];
  double largest = 0;
  std::vector<TestRequest> requests;
  for (const json& prompt : golden["prompts"]) {
    const std::vector<float> expected = DecodeFloats(prompt["logits"]);
    const std::vector<float> row = pipeline.LastLogits(prompt["ids"], /*chunk=*/0);
    ASSERT_EQ(row.size(), expected.size());
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_TRUE(std::isfinite(row[i]));
      largest = std::max<double>(largest, std::abs(row[i] - expected[i]));
    }
    if (!f32) continue;
    requests.push_back(
        {.prompt = prompt["ids"], .max_tokens = static_cast<int32_t>(prompt["greedy_ids"].size())});
  }
  std::printf("%s on %s: %g from the f32 run, own run %g\n", GetParam().checkpoint.c_str(),
              GetParam().backend.c_str(), largest, own_distance);
  EXPECT_LE(largest, f32 ? kF32Tolerance : kOwnDistances * own_distance);
  if (!f32) return;  // greedy tokens are kept of f32 checkpoints only
  const std::vector<TestOutput> outputs = pipeline.Generate(requests, /*chunk=*/7);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(outputs[i].ids(), golden["prompts"][i]["greedy_ids"].get<std::vector<TokenId>>());
  }
}

std::vector<Case> FamilyCases() {
  constexpr const char* kTypes[] = {"f32", "bf16", "f16"};
  std::vector<Case> cases;
  for (const std::string& backend : TestedBackends()) {
    size_t index = 0;
    for (const char* family :
         {"qwen2-tied", "qwen2-yarn", "llama2-linear", "llama3", "qwen3-moe", "qwen3-moe-unscaled",
          "qwen1", "qwen1-plain", "chatglm3", "chatglm3-32k", "chatglm3-128k"}) {
      const size_t in_turn = index++ % 3;
      for (const size_t type : {0, 1, 2}) {
        // On the emulated GPU every family in one type, the types in turn.
        if (backend == "cuda-emulated" && type != in_turn) continue;
        cases.push_back({absl::StrCat(family, "-", kTypes[type]), backend});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenFamilyTest, ::testing::ValuesIn(FamilyCases()), CaseName);

// As today's save_pretrained writes them, in configurations that few models have: each in the type
// that transformers computes in.
std::vector<Case> SavedCases() {
  std::vector<Case> cases;
  for (const std::string& backend : TestedBackends()) {
    for (const char* saved :
         {"llama-biases", "llama-dynamic", "llama-yarn-bare", "qwen2-unsaid", "qwen2-widened",
          "qwen3-attention-bias", "qwen3-moe-mlp-only", "qwen3-moe-step-2", "qwen3-narrowed"}) {
      cases.push_back({absl::StrCat("saved-", saved), backend});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Saved, GoldenFamilyTest, ::testing::ValuesIn(SavedCases()), CaseName);

}  // namespace
}  // namespace tutti::worker
