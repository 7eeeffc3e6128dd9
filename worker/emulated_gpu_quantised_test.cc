// Quantised checkpoints on the emulated GPU: logits against the same numbers in f32, one voice over
// every layout, and bytes held against those planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/files_testing.h"
#include "kernels/cuda/emulated/emulated_backend.h"
#include "model/config_json.h"
#include "model/layer_kinds.h"
#include "model/partition.h"
#include "model/quantise_choice.h"
#include "model/work_space.h"
#include "quant/quantise.h"
#include "worker/pipeline_testing.h"
#include "worker/plain_checkpoint_testing.h"
#include "worker/quantised_checkpoint_testing.h"
#include "worker/quantised_formats_testing.h"
#include "worker/weights.h"

namespace tutti::worker {
namespace {

using kernels::cuda::EmulatedAllocations;
using kernels::cuda::EmulatedBytesInUse;
using nlohmann::json;
using testing::HasSubstr;

constexpr char kGpu[] = "cuda-emulated";
constexpr int32_t kBatchTokens = 150;

std::vector<TokenId> Prompt(int64_t vocab, int64_t length, uint64_t seed) {
  Random random(seed);
  std::vector<TokenId> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(static_cast<TokenId>(random.Between(0, vocab - 1)));
  return ids;
}

// Prompts for the kernels of few, some and many rows.
std::vector<TestRequest> Requests(const model::ModelConfig& config) {
  const int64_t vocab = config.vocab_size;
  std::vector<TestRequest> requests;
  for (const int64_t length : {1L, 20L, std::min(140L, config.max_position_embeddings - 4)}) {
    TestRequest request;
    request.prompt = Prompt(vocab, length, static_cast<uint64_t>(length));
    request.max_tokens = 2;
    request.sampling.set_logprobs(true);
    request.sampling.set_temperature(length == 1 ? 0.f : 0.8f);
    request.sampling.set_seed(1000 + length);
    requests.push_back(request);
  }
  return requests;
}

// The bytes that each rank holds are those planned, of weights and of what operators need; of the
// latter fewer where a stage lacks layers that need more.
void ExpectPlannedBytes(const TestPipelineOptions& options, const TestPipeline& pipeline,
                        const std::string& what) {
  model::ModelConfig config = pipeline.config();
  config.whole_experts = options.whole_experts;
  if (!options.quantise.scheme.empty()) {
    ASSERT_TRUE(model::ApplyQuantise(options.quantise, &config).ok());
  }
  const bool alike = model::KindsOfLayers(config).size() == 1;
  const model::StepSizes sizes = {.max_batch_tokens = options.max_batch_tokens,
                                  .max_sequences = 64,
                                  .max_model_len = config.max_position_embeddings,
                                  .block_size = options.block_size};
  std::vector<int32_t> layers = options.layers;
  if (layers.empty()) layers = {static_cast<int32_t>(config.num_layers)};
  model::StageShare share;
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    share.first_layer += share.num_layers;
    share.num_layers = layers[stage];
    share.has_embedding = stage == 0;
    share.has_head = stage + 1 == layers.size();
    const int ranks = options.ranks.empty() ? 1 : options.ranks[stage];
    for (int rank = 0; rank < ranks; ++rank) {
      SCOPED_TRACE(absl::StrCat(what, ", stage ", stage, ", rank ", rank, " of ", ranks));
      const v1::ShardReady& ready = pipeline.ready(stage, rank);
      const int64_t planned =
          model::ActivationBytes(config, share, ranks, rank, sizes, DeviceKind::kCuda);
      EXPECT_LE(ready.activation_bytes(), planned);
      if (alike) {
        EXPECT_EQ(ready.activation_bytes(), planned);
      }
      EXPECT_EQ(ready.weight_bytes(),
                model::ComputeShardBytes(config, share, ranks, rank, model::kCudaPacking).total());
    }
  }
}

// Each request alone gives the bits of all together, in every layout.
void ExpectOneVoice(const TestPipelineOptions& options, const std::string& what,
                    const std::vector<TestPipelineOptions>& others) {
  TestPipeline alone(options);
  const std::vector<TestRequest> requests = Requests(alone.config());
  std::vector<std::vector<uint32_t>> expected;
  for (const TestRequest& request : requests) {
    expected.push_back(alone.Generate({request}, 0)[0].bits());
  }
  ExpectPlannedBytes(options, alone, what);
  for (size_t i = 0; i < others.size(); ++i) {
    const int64_t before = EmulatedBytesInUse();
    TestPipeline other(others[i]);
    int64_t said = 0;
    const size_t stages = std::max<size_t>(others[i].layers.size(), 1);
    for (size_t stage = 0; stage < stages; ++stage) {
      const int ranks = others[i].ranks.empty() ? 1 : others[i].ranks[stage];
      for (int rank = 0; rank < ranks; ++rank) {
        const v1::ShardReady& ready = other.ready(stage, rank);
        said += ready.weight_bytes() + ready.kv_bytes() + ready.activation_bytes();
      }
    }
    EXPECT_EQ(said, EmulatedBytesInUse() - before) << what << ", layout " << i;
    ExpectPlannedBytes(others[i], other, absl::StrCat(what, ", layout ", i));
    const int64_t after_load = EmulatedAllocations();
    const auto outputs = other.Generate(requests, i % 2 == 0 ? 9 : 0, 3);
    for (size_t r = 0; r < requests.size(); ++r) {
      EXPECT_EQ(outputs[r].bits(), expected[r]) << what << ", layout " << i << ", request " << r;
    }
    EXPECT_EQ(EmulatedAllocations(), after_load) << what << ": a step takes memory";
  }
}

class EmulatedGpuQuantisedTest : public ::testing::Test {
 protected:
  static TestPipelineOptions Options(const std::string& dir) {
    return {.model_dir = dir, .backend = kGpu, .num_blocks = 128, .max_batch_tokens = kBatchTokens};
  }
  TempDir dir_;
  const std::string made_ = MakePlainModel(dir_.path());
};

TEST_F(EmulatedGpuQuantisedTest, EveryFormatGivesTheLogitsOfItsNumbers) {
  for (const auto& [name, format] : QuantisedFormats()) {
    const QuantisedCopy copy = MakeQuantisedCopy(made_, format, dir_.File(name));
    TestPipeline plain({.model_dir = copy.plain, .backend = "reference"});
    TestPipeline codes({.model_dir = copy.codes, .backend = kGpu});
    const auto prompt = Prompt(131, 40, 1);
    const auto expected = plain.LastLogits(prompt, 0), found = codes.LastLogits(prompt, 9);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], 1e-3) << name << ", logit " << i;
    }
  }
}

TEST_F(EmulatedGpuQuantisedTest, OneVoiceAndThePlannedBytesInEveryLayout) {
  size_t turn = 0;
  // Those that differ in more than how files have them.
  for (const std::string name : {"gptq4_any_order", "gptq4_v2_asymmetric", "gptq8", "fp8_blocks",
                                 "fp8_rows", "packed8", "mxfp4", "nvfp4"}) {
    const QuantisedCopy copy =
        MakeQuantisedCopy(made_, QuantisedFormats()[name], dir_.File(name), "bfloat16");
    const TestPipelineOptions options = Options(copy.codes);
    std::vector<TestPipelineOptions> others(4, options);
    others[0].layers = {1, 2};
    others[0].graphs = false;
    others[1].ranks = {2};
    others[1].device_exchange = true;
    others[2].ranks = {8};
    others[3].layers = {1, 1, 1};
    others[3].ranks = {4, 1, 2};
    // One layout of each format in turn, all of one: every thread of the GPU is emulated.
    if (name != "gptq4_any_order") others = {others[turn++ % others.size()]};
    ExpectOneVoice(options, name, others);
  }
}

// Rows become bf16 for codes, and f16 for the embedding that is the head too.
TEST_F(EmulatedGpuQuantisedTest, OneVoiceOfAModelInF16) {
  for (const char* name : {"gptq4_any_order", "awq", "nvfp4"}) {
    const QuantisedCopy copy =
        MakeQuantisedCopy(made_, QuantisedFormats()[name], dir_.File(name), "float16");
    const TestPipelineOptions options = Options(copy.codes);
    std::vector<TestPipelineOptions> others(1, options);
    others[0].ranks = {2};
    ExpectOneVoice(options, name, others);
  }
}

// Layers and roles of several formats, and an embedding, to which the head is tied.
TEST_F(EmulatedGpuQuantisedTest, OneVoiceOfSeveralFormats) {
  json formats = {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}};
  formats["config_groups"]["a"] = Packed(4, 32, false)["config_groups"]["group_0"];
  formats["config_groups"]["b"] = Packed(8, 16, true)["config_groups"]["group_0"];
  const auto by_layer = [](model::Role role, int64_t layer) {
    if (layer < 0) return role == model::Role::kEmbedding ? 1 : -1;
    if (layer == 0) return -1;
    return role == model::Role::kDown ? 1 : 0;
  };
  size_t turn = 0;
  for (const char* dtype : {"float16", "bfloat16", "float32"}) {
    const QuantisedCopy copy =
        MakeMixedCopy(made_, formats, dir_.File(std::string("mixed-") + dtype), dtype, by_layer);
    const TestPipelineOptions options = Options(copy.codes);
    std::vector<TestPipelineOptions> others(3, options);
    others[0].layers = {1, 1, 1};
    others[0].ranks = {1, 2, 1};
    others[1].layers = {2, 1};
    others[2].ranks = {4};
    ExpectOneVoice(options, dtype, {others[turn++]});
  }
}

TEST_F(EmulatedGpuQuantisedTest, OneVoiceOfExperts) {
  const std::pair<std::string, json> cases[] = {
      {GoldenDir("families/qwen3-moe-f32"), GptqConfig(8, 4, true)},
      {MakePlainModel(dir_.path(), true), Nvfp4()},
      {MakePlainModel(dir_.path(), true), QuantisedFormats()["fp8_rows"]}};
  for (const auto& [from, format] : cases) {
    const QuantisedCopy copy = MakeQuantisedCopy(from, format, dir_.File("moe"), "bfloat16");
    const TestPipelineOptions options = Options(copy.codes);
    std::vector<TestPipelineOptions> others(2, options);
    others[0].ranks = {4};
    others[1].ranks = {2};
    others[1].whole_experts = true;
    ExpectOneVoice(options, "experts of " + from, others);
  }
}

// They are those of `tutti quantize`: a head among them.
TEST_F(EmulatedGpuQuantisedTest, CodesMadeWhileLoadingAreThoseOfAFile) {
  const std::pair<std::string, model::QuantiseChoice> cases[] = {
      {made_, {"int4-g32"}}, {GoldenDir("families/qwen3-moe-f32"), {"int8", true}}};
  for (size_t i = 0; i < 2; ++i) {
    const auto& [from, choice] = cases[i];
    const std::string file = dir_.File(absl::StrCat("case", i));
    const absl::Status made = quant::QuantiseCheckpoint(from, file, choice, nullptr);
    ASSERT_TRUE(made.ok()) << made;
    TestPipeline of_file(Options(file));
    const std::vector<TestRequest> requests = Requests(of_file.config());
    const auto expected = of_file.Generate(requests, 0);
    TestPipelineOptions options = Options(from);
    options.quantise = choice;
    options.ranks = {2};
    TestPipeline pipeline(options);
    const auto outputs = pipeline.Generate(requests, 9, 3);
    for (size_t r = 0; r < requests.size(); ++r) {
      EXPECT_EQ(outputs[r].bits(), expected[r].bits()) << from << ", request " << r;
    }
    ExpectPlannedBytes(options, pipeline, from);
  }
}

TEST_F(EmulatedGpuQuantisedTest, RowsThatAreRoundedAreRefusedByName) {
  const QuantisedCopy copy =
      MakeQuantisedCopy(made_, Integers(true), dir_.File("w8a8"), "bfloat16");
  const auto config = model::LoadModelConfig(copy.codes);
  ASSERT_TRUE(config.ok()) << config.status();
  const absl::Status planned = model::CheckDeviceKind(*config, DeviceKind::kCuda);
  EXPECT_EQ(planned.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(planned.message()), HasSubstr("GPUs serve weights in int8 alone"));
  const auto backend = kernels::cuda::OpenEmulatedBackend({}, 0);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto loaded =
      LoadWeights(copy.codes, *config, model::WholeModel(*config), backend->get(), nullptr);
  EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("(W8A8)"));
}

}  // namespace
}  // namespace tutti::worker
