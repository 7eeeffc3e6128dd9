// Quantised checkpoints: logits against the same numbers in f32, one voice over every layout, and
// bytes held against those planned.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "model/config_json.h"
#include "model/partition.h"
#include "model/quantise_choice.h"
#include "quant/quantise.h"
#include "quant/tensor_source.h"
#include "worker/pipeline_testing.h"
#include "worker/plain_checkpoint_testing.h"
#include "worker/quantised_checkpoint_testing.h"
#include "worker/quantised_formats_testing.h"
#include "worker/quantised_voice_testing.h"
#include "worker/weights.h"

namespace tutti::worker {
namespace {

using nlohmann::json;

class QuantisedModelTest : public ::testing::Test {
 protected:
  TempDir dir_;
  const std::string made_ = MakePlainModel(dir_.path());
};

TEST_F(QuantisedModelTest, EveryFormatGivesTheLogitsOfItsNumbers) {
  for (const auto& [name, format] : QuantisedFormats()) {
    const QuantisedCopy copy = MakeQuantisedCopy(made_, format, dir_.File(name));
    TestPipeline plain({.model_dir = copy.plain, .backend = "reference"});
    const auto prompt = Prompt(131, 40, 1);
    const auto expected = plain.Logits(prompt);
    for (const char* backend : {"cpu", "reference"}) {
      TestPipeline codes({.model_dir = copy.codes, .backend = backend});
      EXPECT_LE(LargestDifference(codes.Logits(prompt), expected), 1e-3) << name << " " << backend;
    }
  }
}

// The reference computes them in f64. Other sums between the products may round an element to
// another integer.
TEST_F(QuantisedModelTest, RoundedActivationsGiveTheExactLogits) {
  const QuantisedCopy copy = MakeQuantisedCopy(made_, Integers(true), dir_.File("w8a8"));
  const auto prompt = Prompt(131, 40, 1);
  TestPipeline exact({.model_dir = copy.codes, .backend = "reference"});
  const auto expected = exact.Logits(prompt);
  TestPipeline codes({.model_dir = copy.codes, .backend = "cpu"});
  EXPECT_LE(LargestDifference(codes.Logits(prompt), expected), 1e-3);
  TestPipeline plain({.model_dir = copy.plain, .backend = "reference"});
  const double from_plain = LargestDifference(plain.Logits(prompt), expected);
  EXPECT_GT(from_plain, 1e-3) << "activations are rounded";
  EXPECT_LT(from_plain, 0.5) << "to near ones";
}

TEST_F(QuantisedModelTest, EveryFamilyInEightBitsAndFour) {
  for (const char* family :
       {"qwen2-tied", "llama2-linear", "llama3", "qwen3-moe", "qwen1", "chatglm3"}) {
    const std::string from = GoldenDir(absl::StrCat("families/", family, "-f32"));
    const int64_t vocab = model::LoadModelConfig(from)->vocab_size;
    for (const json& format : {GptqConfig(8, 4, true), Packed(4, 4, false), Fp8(16)}) {
      const std::string to = dir_.File(absl::StrCat(family, format["quant_method"].dump()));
      const QuantisedCopy copy = MakeQuantisedCopy(from, format, to);
      TestPipeline plain({.model_dir = copy.plain, .backend = "cpu"});
      TestPipeline codes({.model_dir = copy.codes, .backend = "cpu", .layers = {1, 1}});
      const auto prompt = Prompt(vocab, 30, 2);
      EXPECT_LE(LargestDifference({codes.LastLogits(prompt, 7)}, {plain.LastLogits(prompt, 7)}),
                1e-3)
          << family << " " << format;
    }
  }
}

// ---- one voice

TEST_F(QuantisedModelTest, OneVoiceAndThePlannedBytesInEveryLayout) {
  std::map<std::string, json> formats = QuantisedFormats();
  formats["w8a8"] = Integers(true);
  for (const auto& [name, format] : formats) {
    const QuantisedCopy copy = MakeQuantisedCopy(made_, format, dir_.File(name), "bfloat16");
    TestPipelineOptions options = {.model_dir = copy.codes, .backend = "cpu", .num_blocks = 128};
    std::vector<TestPipelineOptions> others(6, options);
    others[0].threads = 2;
    others[1].layers = {1, 2};
    others[2].layers = {1, 1, 1};
    others[3].ranks = {2};
    others[4].ranks = {4};
    others[5].ranks = {8};
    ExpectOneVoice(options, name, others);
    for (const int ranks : {1, 2, 8}) {
      options.ranks = {ranks};
      ExpectPlannedBytes(options, name);
    }
  }
}

TEST_F(QuantisedModelTest, OneVoiceOfExperts) {
  const std::pair<std::string, json> cases[] = {
      {GoldenDir("families/qwen3-moe-f32"), GptqConfig(8, 4, true)},
      {MakePlainModel(dir_.path(), true), Nvfp4()}};
  for (const auto& [from, format] : cases) {
    const std::string what = "experts of " + from;
    const QuantisedCopy copy = MakeQuantisedCopy(from, format, dir_.File("moe"), "bfloat16");
    TestPipelineOptions options = {.model_dir = copy.codes, .backend = "cpu", .num_blocks = 128};
    std::vector<TestPipelineOptions> others(3, options);
    others[0].ranks = {2};
    others[1].ranks = {4};
    others[2].ranks = {2};
    others[2].whole_experts = true;
    ExpectOneVoice(options, what, others);
    for (const TestPipelineOptions& other : others) ExpectPlannedBytes(other, what);
  }
}

TEST_F(QuantisedModelTest, ExpertsThatRoundRowsAreWholeOnRanks) {
  const QuantisedCopy copy = MakeQuantisedCopy(MakePlainModel(dir_.path(), true), Integers(true),
                                               dir_.File("w8a8"), "bfloat16");
  TestPipelineOptions options = {.model_dir = copy.codes, .backend = "cpu", .num_blocks = 128};
  TestPipelineOptions whole = options;
  whole.ranks = {2};
  whole.whole_experts = true;
  ExpectOneVoice(options, "whole experts", {whole});
  ExpectPlannedBytes(whole, "whole experts");
  model::ModelConfig config = *model::LoadModelConfig(copy.codes);
  EXPECT_EQ(model::CheckRanks(config, 2).message(),
            "tensor-parallel size 2 would cut rows of experts whose activations are int8, unless "
            "ranks have whole experts (--expert-split expert); the nearest that this model takes "
            "is 1");
  // Whoever assigned it may not have looked.
  const auto backend = *kernels::CreateBackend("cpu", {});
  const auto cut = LoadWeights(copy.codes, config, model::WholeModel(config), backend.get(),
                               nullptr, {.ranks = 2, .rank = 0});
  EXPECT_EQ(cut.status(), model::CheckRanks(config, 2));
  config.whole_experts = true;
  EXPECT_TRUE(model::CheckRanks(config, 2).ok());
}

// Their ranks exchange the largest elements of rows where the weights that were loaded round rows,
// not where config.json lets one expect it.
TEST_F(QuantisedModelTest, WhatRoundsRowsIsKnownWhenItIsLoaded) {
  const QuantisedCopy dense = MakeQuantisedCopy(made_, Integers(true), dir_.File("dense"),
                                                "bfloat16", {model::Role::kDown});
  const QuantisedCopy experts = MakeQuantisedCopy(
      MakePlainModel(dir_.path(), true), Integers(true), dir_.File("experts"), "bfloat16",
      {model::Role::kExpertGate, model::Role::kExpertUp, model::Role::kExpertDown});
  for (const std::string& folder : {dense.codes, experts.codes}) {
    TestPipelineOptions options = {.model_dir = folder, .backend = "cpu", .num_blocks = 128};
    TestPipelineOptions ranks = options;
    ranks.ranks = {2};
    TestPipelineOptions unknown = ranks;
    unknown.roles_unknown = true;
    ExpectOneVoice(options, folder, {ranks, unknown});
  }
}

TEST_F(QuantisedModelTest, InstructionSetsOfAClassAgree) {
  for (const char* name : {"gptq4_any_order", "awq", "fp8_blocks", "nvfp4"}) {
    const QuantisedCopy copy =
        MakeQuantisedCopy(made_, QuantisedFormats()[name], dir_.File(name), "bfloat16");
    TestPipelineOptions options = {.model_dir = copy.codes, .backend = "cpu"};
    options.numerics_class = "cpu-f32";
    std::vector<TestPipelineOptions> others(1, options);
    others[0].instruction_set = "avx2";
    ExpectOneVoice(options, name, others);
    options.numerics_class = "cpu-bf16block";
    others[0] = options;
    others[0].instruction_set = "avx2-block";
    ExpectOneVoice(options, name, others);
  }
}

// ---- codes made while a checkpoint is loaded

// They are those of `tutti quantize`: groups that ranks cut, fused tensors, a tied head, experts
// and types that are converted among them.
TEST_F(QuantisedModelTest, CodesMadeWhileLoadingAreThoseOfAFile) {
  std::vector<std::pair<std::string, model::QuantiseChoice>> cases = {{made_, {"int4-g32"}},
                                                                      {made_, {"int4-g8", true}}};
  for (const char* family : {"qwen2-tied", "chatglm3", "qwen3-moe", "qwen1", "llama3"}) {
    cases.push_back({GoldenDir(absl::StrCat("families/", family, "-f32")), {"int8", true}});
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& [from, choice] = cases[i];
    const std::string what = absl::StrCat(from, " ", choice.scheme);
    const std::string file = dir_.File(absl::StrCat("case", i));
    const absl::Status made = quant::QuantiseCheckpoint(from, file, choice, nullptr);
    ASSERT_TRUE(made.ok()) << made;
    TestPipeline of_file({.model_dir = file, .backend = "cpu", .num_blocks = 128});
    const std::vector<TestRequest> requests = Requests(of_file.config().vocab_size);
    const auto expected = of_file.Generate(requests, 0);
    for (const int ranks : {1, 2, 4, 8}) {
      if (!model::CheckRanks(of_file.config(), ranks).ok()) continue;
      TestPipelineOptions options = {.model_dir = from,
                                     .backend = "cpu",
                                     .ranks = {ranks},
                                     .quantise = choice,
                                     .num_blocks = 128};
      TestPipeline pipeline(options);
      const auto outputs = pipeline.Generate(requests, 5, 3);
      for (size_t r = 0; r < requests.size(); ++r) {
        EXPECT_EQ(outputs[r].bits(), expected[r].bits())
            << what << ", " << ranks << " ranks, " << r;
      }
      model::ModelConfig config = pipeline.config();
      ASSERT_TRUE(model::ApplyQuantise(choice, &config).ok());
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(pipeline.ready(0, rank).weight_bytes(),
                  model::ComputeShardBytes(config, model::WholeModel(config), ranks, rank).total())
            << what << ", rank " << rank << " of " << ranks;
      }
    }
  }
}

// ---- checkpoints by the formats' own packers

template <typename Value>
std::vector<Value> Values(const quant::TensorSource& source, const std::string& name) {
  const auto bytes = source.Read(name);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  std::vector<Value> values(bytes->size() / sizeof(Value));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

std::vector<double> LogProbabilities(const std::vector<double>& logits) {
  double sum = 0;
  const double most = *std::max_element(logits.begin(), logits.end());
  for (const double logit : logits) sum += std::exp(logit - most);
  std::vector<double> found;
  for (const double logit : logits) found.push_back(logit - most - std::log(sum));
  return found;
}

TEST(QuantisedFixturesTest, LogProbabilitiesAndGreedyTokensAreTheExactOnes) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no quantised models";
  for (const char* name : {"tiny_qwen3_gptq_int4", "tiny_qwen3_fp8"}) {
    const std::string from = TestData() + "/quant/" + name;
    // As they are, and with what is computed between the products in f32 too.
    TempDir wide;
    std::filesystem::copy(from + "/model.safetensors", wide.File("model.safetensors"));
    json root = json::parse(ReadWholeFile(from + "/config.json"));
    root["torch_dtype"] = "float32";
    wide.Write("config.json", root.dump());
    const auto expected = *quant::OpenTensors(from + "/expected.safetensors");
    std::vector<TokenId> ids;
    for (const int64_t id : Values<int64_t>(*expected, "input_ids")) {
      ids.push_back(static_cast<TokenId>(id));
    }
    std::vector<TokenId> greedy;
    for (const int64_t id : Values<int64_t>(*expected, "greedy_ids")) {
      greedy.push_back(static_cast<TokenId>(id));
    }
    const auto exact = Values<double>(*expected, "logits_f64");
    const size_t vocab = exact.size() / ids.size();
    for (const std::string& dir : {wide.path(), from}) {
      TestPipeline pipeline({.model_dir = dir, .backend = "cpu"});
      const auto logits = pipeline.Logits(ids);
      double largest = 0;
      for (size_t p = 0; p < ids.size(); ++p) {
        const auto row = exact.begin() + static_cast<int64_t>(p * vocab);
        const auto of_exact = LogProbabilities({row, row + static_cast<int64_t>(vocab)});
        const auto of_ours = LogProbabilities({logits[p].begin(), logits[p].end()});
        for (size_t i = 0; i < vocab; ++i) {
          largest = std::max(largest, std::abs(of_exact[i] - of_ours[i]));
        }
      }
      std::printf("%s: %g from the exact log-probabilities\n", dir.c_str(), largest);
      // bf16 between the products errs so much; transformers in bf16 by 0.44.
      EXPECT_LE(largest, dir == from ? 0.44 : 1e-3) << name;
      const auto output = pipeline.Generate(
          {{.prompt = ids, .max_tokens = static_cast<int32_t>(greedy.size())}}, 0);
      EXPECT_EQ(output[0].ids(), greedy) << name;
    }
  }
}

}  // namespace
}  // namespace tutti::worker
