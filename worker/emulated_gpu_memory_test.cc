// The host's side of a GPU's memory, as an emulated GPU shows it: which allocations, and when.
#include <gtest/gtest.h>

#include "kernels/cuda/emulated/emulated_backend.h"
#include "worker/pipeline_testing.h"

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
