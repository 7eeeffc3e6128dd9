// The host's side of a GPU's memory, as an emulated GPU shows it: which allocations, and when.
#include <gtest/gtest.h>

#include "kernels/cuda/emulated/emulated_backend.h"
#include "model/config_json.h"
#include "worker/pipeline_testing.h"
#include "worker/transformer.h"

namespace tutti::worker {
namespace {

using kernels::cuda::EmulatedAllocations;
using kernels::cuda::EmulatedBytesInUse;

// Prompts of all lengths and every kind of sampling.
std::vector<TestRequest> Requests(int64_t vocab) {
  std::vector<TestRequest> requests;
  for (int i = 0; i < 9; ++i) {
    TestRequest request{.max_tokens = 2};
    for (int t = 0; t < 1 + 2 * i; ++t) request.prompt.push_back((7 * t + 3 * i) % vocab);
    request.sampling.set_logprobs(true);
    request.sampling.set_top_logprobs(i % 3);
    request.sampling.set_temperature(0.4f * static_cast<float>(i % 3));
    request.sampling.set_seed(i);
    if (i % 2 == 1) request.sampling.set_top_p(0.9f);
    if (i % 4 == 3) request.sampling.set_repetition_penalty(1.2f);
    request.drafts = 1 + i % 3;
    requests.push_back(request);
  }
  return requests;
}

class EmulatedGpuTest : public ::testing::TestWithParam<std::string> {
 protected:
  // With a draft model where the last stage has two ranks.
  TestPipeline Pipeline(std::vector<int> ranks) {
    return TestPipeline({.model_dir = GoldenDir(GetParam()),
                         .draft_dir = ranks[1] == 2 ? GoldenDir("families/qwen1-f32") : "",
                         .backend = "cuda-emulated",
                         .layers = {1, 1},
                         .ranks = std::move(ranks),
                         .device_links = true,
                         .max_batch_tokens = 48});
  }
};

TEST_P(EmulatedGpuTest, NoStepTakesMemory) {
  for (const int ranks : {1, 2}) {
    TestPipeline pipeline = Pipeline({ranks, ranks});
    const int64_t after_load = EmulatedAllocations();
    const auto requests = Requests(pipeline.config().vocab_size);
    pipeline.Generate(requests, ranks == 1 ? 0 : 9);
    EXPECT_EQ(EmulatedAllocations(), after_load) << ranks << " ranks";
  }
}

TEST_P(EmulatedGpuTest, AShardSaysWhatItsDeviceHolds) {
  for (const int ranks : {1, 2}) {
    const int64_t before = EmulatedBytesInUse();
    TestPipeline pipeline = Pipeline({ranks, ranks});
    int64_t said = 0;
    for (const size_t stage : {0, 1}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const v1::ShardReady& ready = pipeline.ready(stage, rank);
        said += ready.weight_bytes() + ready.kv_bytes() + ready.activation_bytes();
      }
    }
    EXPECT_EQ(said, EmulatedBytesInUse() - before) << ranks << " ranks";
  }
}

// A pipeline that forms anew gives a worker another shard: of what the one before needed nothing is
// left, and it holds what one that begins with it does, as is planned.
TEST_P(EmulatedGpuTest, AnotherShardLeavesNothingOfTheOneBefore) {
  const model::ModelConfig config = *model::LoadModelConfig(GoldenDir(GetParam()));
  const auto shard_of = [&](bool whole) {
    v1::AssignShard shard;
    shard.set_num_stages(1);
    shard.set_num_ranks(1);
    shard.set_num_layers(whole ? static_cast<int32_t>(config.num_layers) : 1);
    shard.set_has_embedding(true);
    shard.set_has_head(whole);
    shard.set_block_size(16);
    shard.set_num_blocks(8);
    shard.set_max_batch_tokens(whole ? 48 : 20);
    shard.set_max_sequences(16);
    shard.set_max_model_len(static_cast<int32_t>(config.max_position_embeddings));
    return shard;
  };
  const int64_t at_first = EmulatedBytesInUse();
  int64_t alone = 0;
  for (const bool whole_before : {false, true}) {
    const auto backend = *kernels::cuda::OpenEmulatedBackend({}, 0);
    const StageRunnerFactory load = MakeTransformerFactory(
        {.dir = GoldenDir(GetParam()), .config = config, .backend = backend.get()});
    EXPECT_TRUE(!whole_before || load(shard_of(true), nullptr).ok());
    const auto runner = load(shard_of(false), nullptr);
    ASSERT_TRUE(runner.ok()) << runner.status();
    const ShardMemory memory = (*runner)->memory();
    if (!whole_before) alone = memory.activation_bytes;
    EXPECT_EQ(memory.activation_bytes, alone);
    EXPECT_EQ(memory.weight_bytes + memory.kv_bytes + memory.activation_bytes,
              EmulatedBytesInUse() - at_first);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EmulatedGpuTest,
                         ::testing::Values("families/qwen3-moe-bf16", "families/llama3-f32",
                                           "families/chatglm3-128k-f16"),
                         [](const auto& info) {
                           std::string name = info.param.substr(info.param.find('/') + 1);
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tutti::worker
