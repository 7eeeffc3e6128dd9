// A draft model beside its target, both real: it guesses what the target draws where both draw the
// same, guesses from rows that are right whatever was guessed before, and changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/device_kind.h"
#include "base/random.h"
#include "model/config_json.h"
#include "model/partition.h"
#include "model/work_space.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

constexpr char kTarget[] = "grouped-tied-bf16";                // 259 tokens
constexpr char kLargerVocabulary[] = "narrow-untied-f32";      // 301
constexpr char kSmallerVocabulary[] = "families/llama3-bf16";  // 163, and a context of 128

std::vector<TestRequest> Requests(int64_t vocab, bool slow) {
  std::vector<TestRequest> requests;
  Random random(88);
  for (int i = 0; i < (slow ? 3 : 8); ++i) {
    TestRequest request{.max_tokens = slow ? 8 : 30, .drafts = 1 + i % 4};
    const int64_t length = random.Between(1, slow ? 8 : 40);
    for (int64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.Between(0, vocab - 1)));
    }
    request.sampling.set_logprobs(true);
    request.sampling.set_temperature(i % 2 == 0 ? 0.f : 1.f);
    request.sampling.set_seed(5000 + i);
    if (i % 4 == 1) request.sampling.set_top_p(0.9f);
    if (i % 4 == 3) request.sampling.set_top_k(30);
    if (i % 3 == 2) request.sampling.set_repetition_penalty(1.3f);
    requests.push_back(request);
  }
  return requests;
}

class DraftModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  TestPipelineOptions Options(const std::string& draft) const {
    return {.model_dir = GoldenDir(kTarget),
            .draft_dir = draft.empty() ? "" : GoldenDir(draft),
            .backend = GetParam(),
            .num_blocks = 96,
            .max_batch_tokens = 96};
  }

  // Each request alone and undrafted.
  std::vector<std::vector<uint32_t>> Expected() const {
    std::vector<std::vector<uint32_t>> bits;
    TestPipeline pipeline(Options(""));
    for (const TestRequest& request : requests_) {
      bits.push_back(pipeline.Generate({request}, 0)[0].bits());
    }
    return bits;
  }

  void ExpectBits(TestPipeline& pipeline, int32_t chunk) {
    const auto outputs = pipeline.Generate(requests_, chunk, /*block_seed=*/chunk);
    for (size_t i = 0; i < requests_.size(); ++i) {
      EXPECT_EQ(outputs[i].bits(), expected_[i]) << "request " << i << ", chunk " << chunk;
    }
  }

  // What the draft model said is what it says of the same text when it is alone and has computed
  // nothing else.
  void ExpectAsFromScratch(const std::string& draft, const TestPipeline& pipeline) {
    TestPipelineOptions options = Options("");
    options.model_dir = GoldenDir(draft);
    TestPipeline alone(options);
    size_t looked = 0;
    for (const TestPipeline::Drafted& drafted : pipeline.drafted()) {
      if (drafted.tokens.empty() || (slow_ && ++looked > 6)) continue;
      TestRequest request{.prompt = drafted.text,
                          .max_tokens = static_cast<int32_t>(drafted.tokens.size()),
                          .sampling = requests_[drafted.request].sampling};
      EXPECT_EQ(alone.Generate({request}, 0)[0].ids(), drafted.tokens)
          << "request " << drafted.request << " behind " << drafted.text.size() << " tokens";
    }
    EXPECT_GT(pipeline.drafted().size(), 5u);
  }

  const bool slow_ = IsSlow(GetParam());
  std::vector<TestRequest> requests_ =
      Requests(model::LoadModelConfig(GoldenDir(kTarget))->vocab_size, slow_);
  const std::vector<std::vector<uint32_t>> expected_ = Expected();
};

// Also at temperatures: the same randomness draws for both.
TEST_P(DraftModelTest, TheTargetItselfGuessesRight) {
  std::vector<TestPipelineOptions> layouts(2, Options(kTarget));
  layouts[1].layers = {1, 2};
  layouts[1].ranks = {1, 2};
  for (const TestPipelineOptions& layout : layouts) {
    TestPipeline pipeline(layout);
    for (const int32_t chunk : {0, 7}) {
      if (slow_ && chunk != 0) continue;
      ExpectBits(pipeline, chunk);
      EXPECT_GT(pipeline.guessed(), slow_ ? 5 : 60);
      EXPECT_EQ(pipeline.guessed_right(), pipeline.guessed());
    }
  }
}

TEST_P(DraftModelTest, AnotherModelChangesNoBit) {
  TestPipeline pipeline(Options(kLargerVocabulary));
  for (const int32_t chunk : {0, 5}) {
    if (slow_ && chunk != 0) continue;
    ExpectBits(pipeline, chunk);
    EXPECT_GT(pipeline.guessed(), slow_ ? 5 : 60);
    EXPECT_LT(pipeline.guessed_right(), pipeline.guessed());
    ExpectAsFromScratch(kLargerVocabulary, pipeline);
  }
}

TEST_P(DraftModelTest, AModelThatLacksTokensGuessesWhereItCan) {
  for (TestRequest& request : requests_) {
    for (TokenId& token : request.prompt) token %= 160;
  }
  TestPipeline plain(Options("")), pipeline(Options(kSmallerVocabulary));
  const auto outputs = pipeline.Generate(requests_, 0);
  const auto expected = plain.Generate(requests_, 0);
  for (size_t i = 0; i < requests_.size(); ++i) EXPECT_EQ(outputs[i].bits(), expected[i].bits());
  EXPECT_GT(pipeline.guessed(), 0);
  for (const TestPipeline::Drafted& drafted : pipeline.drafted()) {
    EXPECT_LT(*std::max_element(drafted.text.begin(), drafted.text.end()), 163);
  }
}

// The sums that placement promises; a GPU's operators share memory.
TEST_P(DraftModelTest, TakesTheMemoryOfBoth) {
  if (GetParam() == "reference") return;  // it holds weights as they are
  const TestPipelineOptions options = Options(kSmallerVocabulary);
  const TestPipeline pipeline(options);
  const bool gpu = GetParam().starts_with("cuda");
  const DeviceKind kind = gpu ? DeviceKind::kCuda : DeviceKind::kCpu;
  int64_t weights = 0, kv = 0, work = 0;
  for (const char* name : {kTarget, kSmallerVocabulary}) {
    const model::ModelConfig config = *model::LoadModelConfig(GoldenDir(name));
    const model::StageShare whole = model::WholeModel(config);
    weights += model::ComputeShardBytes(config, whole, 1, 0, model::PackingOf(kind)).total();
    kv += config.num_layers * options.num_blocks * options.block_size *
          model::ResidentKvBytesPerToken(config, 1, kind);
    work += model::ActivationBytes(config, whole, 1, 0,
                                   {.max_batch_tokens = options.max_batch_tokens,
                                    .max_sequences = 64,
                                    .max_model_len = config.max_position_embeddings,
                                    .block_size = options.block_size},
                                   kind);
  }
  const v1::ShardReady& ready = pipeline.ready(0);
  EXPECT_EQ(ready.weight_bytes(), weights);
  EXPECT_EQ(ready.kv_bytes(), kv);
  if (gpu) {
    EXPECT_LE(ready.activation_bytes(), work);
  } else {
    EXPECT_EQ(ready.activation_bytes(), work);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DraftModelTest, ::testing::ValuesIn(TestedBackends()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return c == ':' || c == '-'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace tutti::worker
