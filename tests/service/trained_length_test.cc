// The original Qwen turns keys by a base that depends on the prompt's length once that exceeds the
// trained one (model/rotary.h): cached blocks of a shorter prompt are of no use to a longer one.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "model/checkpoint_testing.h"
#include "model/config_json.h"
#include "tests/support/in_process_cluster.h"
#include "tools/random_checkpoint.h"

namespace tutti::tests {
namespace {

constexpr uint32_t kTrained = 64;
constexpr uint32_t kBlock = 16;

constexpr char kConfig[] = R"({"architectures": ["QWenLMHeadModel"], "model_type": "qwen",
  "hidden_size": 64, "intermediate_size": 96, "kv_channels": 16, "layer_norm_epsilon": 1e-06,
  "max_position_embeddings": 512, "no_bias": true, "num_attention_heads": 4,
  "num_hidden_layers": 2, "rotary_emb_base": 10000, "rotary_pct": 1.0, "scale_attn_weights": true,
  "seq_length": 64, "tie_word_embeddings": false, "use_dynamic_ntk": true, "use_logn_attn": true,
  "vocab_size": 1248, "torch_dtype": "float32"})";

std::vector<TokenId> Tokens(uint32_t count, uint32_t kind) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>((37 * i + 11 * i * i + 101 * kind) % 1200));
  }
  return tokens;
}

class TrainedLengthTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_.Write("config.json", kConfig);
    const char* source = std::getenv("TUTTI_SOURCE_DIR");
    const std::string demo = std::string(source != nullptr ? source : ".") + "/models/demo";
    std::filesystem::copy(demo + "/tokenizer.json", dir_.path());
    const auto config = model::LoadModelConfig(dir_.path());
    ASSERT_TRUE(config.ok()) << config.status();
    ASSERT_TRUE(
        tools::WriteRandomCheckpoint(*config, {.output_dir = dir_.path()}, [](int64_t, int64_t) {
        }).ok());
    with_cache_ = Cluster(true);
    without_ = Cluster(false);
  }

  std::unique_ptr<InProcessCluster> Cluster(bool caching) {
    InProcessClusterOptions options = {.model_dir = dir_.path(), .layers = {1, 1}};
    options.engine.block_size = kBlock;
    options.engine.chunk_tokens = 24;
    options.engine.enable_prefix_caching = caching;
    return std::make_unique<InProcessCluster>(options);
  }

  // Asks both, which must answer the same, bit for bit; expects `cached` tokens found by the first.
  std::vector<TokenId> Ask(const std::vector<TokenId>& prompt, uint32_t max_tokens,
                           uint32_t cached) {
    v1::GenerateRequest request;
    request.mutable_token_ids()->mutable_ids()->Assign(prompt.begin(), prompt.end());
    request.mutable_sampling()->set_temperature(0);
    request.mutable_sampling()->set_max_tokens(max_tokens);
    request.mutable_sampling()->set_ignore_eos(true);
    request.mutable_sampling()->set_logprobs(true);
    const Answer answer = with_cache_->Generate(request);
    const Answer expected = without_->Generate(request);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.finish.usage().cached_prompt_tokens(), cached)
        << "prompt of " << prompt.size() << " tokens";
    EXPECT_EQ(expected.finish.usage().cached_prompt_tokens(), 0u);
    EXPECT_EQ(answer.tokens.size(), expected.tokens.size());
    std::vector<TokenId> ids;
    for (size_t i = 0; i < std::min(answer.tokens.size(), expected.tokens.size()); ++i) {
      ids.push_back(answer.tokens[i].id());
      EXPECT_EQ(answer.tokens[i].id(), expected.tokens[i].id());
      EXPECT_EQ(std::bit_cast<uint32_t>(answer.tokens[i].logprob()),
                std::bit_cast<uint32_t>(expected.tokens[i].logprob()))
          << "token " << i << " after a prompt of " << prompt.size();
    }
    with_cache_->WaitIdle();
    return ids;
  }

  TempDir dir_;
  std::unique_ptr<InProcessCluster> with_cache_, without_;
};

TEST_F(TrainedLengthTest, PrefixesAreSharedOnOneSideOfItOnly) {
  const std::vector<TokenId> all = Tokens(200, 0);
  const auto prompt = [&](uint32_t length) {
    return std::vector<TokenId>(all.begin(), all.begin() + length);
  };
  Ask(prompt(kTrained - 1), 4, 0);
  Ask(prompt(kTrained), 4, 3 * kBlock);
  Ask(prompt(kTrained + 1), 4, 0);
  Ask(prompt(kTrained + 2), 4, 4 * kBlock);
  Ask(prompt(2 * kTrained), 4, 4 * kBlock);  // the same base up to twice the length
  Ask(prompt(2 * kTrained + 1), 4, 0);
  Ask(prompt(2 * kTrained), 4, 7 * kBlock);
  Ask(prompt(kTrained), 4, 3 * kBlock);
}

// Output that crosses the trained length keeps the base of its prompt: the conversation so far,
// sent as the next prompt, has another.
TEST_F(TrainedLengthTest, OutputsCrossItWithThePromptsBase) {
  std::vector<TokenId> turn = Tokens(kTrained - 4, 1);
  const std::vector<TokenId> output = Ask(turn, 20, 0);
  ASSERT_EQ(output.size(), 20u);
  turn.insert(turn.end(), output.begin(), output.begin() + 4);
  Ask(turn, 2, 3 * kBlock);  // kTrained tokens
  turn.insert(turn.end(), output.begin() + 4, output.end());
  Ask(turn, 2, 0);
  turn.push_back(7);
  Ask(turn, 2, 5 * kBlock);
}

}  // namespace
}  // namespace tutti::tests
