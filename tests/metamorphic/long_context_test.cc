// A prompt of many chunks on a model in ChatGLM3-128K's shape, reduced in layers and width: the
// bits do not depend on the chunks, and memory stays what the shard announced.
//
// TUTTI_LONG_CONTEXT=131072 runs the full context, with chunks of 512 and 4,096 (some minutes).
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/checkpoint_testing.h"
#include "model/config_json.h"
#include "tools/random_checkpoint.h"
#include "worker/pipeline_testing.h"

namespace tutti::tests {
namespace {

using worker::TestOutput;
using worker::TestPipeline;

constexpr char kConfig[] = R"({"architectures": ["ChatGLMModel"], "model_type": "chatglm",
  "add_bias_linear": false, "add_qkv_bias": true, "ffn_hidden_size": 112, "hidden_size": 64,
  "kv_channels": 16, "layernorm_epsilon": 1e-05, "multi_query_attention": true,
  "multi_query_group_num": 2, "num_attention_heads": 4, "num_layers": 2, "original_rope": true,
  "padded_vocab_size": 512, "post_layer_norm": true, "rmsnorm": true, "rope_ratio": 500,
  "seq_length": 131072, "torch_dtype": "float16"})";

constexpr int32_t kOutputTokens = 4;
// Memory allocated beside the shard: plans, batches, tests.
constexpr int64_t kSlackBytes = 48 << 20;

// The peak of this process, in bytes.
int64_t PeakResident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

TEST(LongContext, BitsAndMemoryDoNotDependOnTheChunks) {
  const char* given = std::getenv("TUTTI_LONG_CONTEXT");
  const int32_t context = given != nullptr ? std::atoi(given) : 3000;
  ASSERT_TRUE(context > 2 * kOutputTokens && context <= 131072);
  const std::vector<int32_t> chunks =
      given != nullptr ? std::vector<int32_t>{512, 4096} : std::vector<int32_t>{96, 1024};

  TempDir dir;
  dir.Write("config.json", kConfig);
  const model::ModelConfig config = *model::LoadModelConfig(dir.path());
  ASSERT_TRUE(
      tools::WriteRandomCheckpoint(config, {.output_dir = dir.path()}, [](int64_t, int64_t) {
      }).ok());
  Random random(7);
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < context - kOutputTokens; ++i) {
    prompt.push_back(static_cast<TokenId>(random.Between(0, config.vocab_size - 1)));
  }
  v1::SequenceSampling sampling;
  sampling.set_logprobs(true);

  std::vector<std::vector<uint32_t>> seen;
  for (const int32_t chunk : chunks) {
    const int64_t before = PeakResident();
    worker::TestPipeline pipeline({.model_dir = dir.path(),
                                   .backend = "cpu",
                                   .threads = 2,
                                   .num_blocks = context / 16 + 1,
                                   .max_batch_tokens = chunk});
    const worker::TestOutput output = pipeline.Generate(
        {{.prompt = prompt, .max_tokens = kOutputTokens, .sampling = sampling}}, chunk)[0];
    std::vector<uint32_t> bits;
    for (const v1::SampledToken& token : output.tokens) {
      bits.push_back(static_cast<uint32_t>(token.token()));
      bits.push_back(std::bit_cast<uint32_t>(token.logprob()));
    }
    seen.push_back(bits);
    const v1::ShardReady& ready = pipeline.ready(0);
    const int64_t announced = ready.weight_bytes() + ready.kv_bytes() + ready.activation_bytes();
    const int64_t grown = PeakResident() - before;
    std::printf("%d tokens in chunks of %d: announced %lld bytes, peak grew by %lld\n", context,
                chunk, static_cast<long long>(announced), static_cast<long long>(grown));
    EXPECT_LE(grown, announced + kSlackBytes);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

}  // namespace
}  // namespace tutti::tests
