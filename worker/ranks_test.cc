// One voice over ranks: tokens and the bits of everything reported about them are those of one
// worker, for any number of ranks in any stage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_join.h"
#include "base/random.h"
#include "kernels/float_formats.h"
#include "model/checkpoint_testing.h"
#include "model/partition.h"
#include "model/work_space.h"
#include "worker/pipeline_testing.h"

namespace tutti::worker {
namespace {

struct Shape {
  const char* name;
  int64_t heads;
  int64_t kv_heads;
  int64_t intermediate;
  int64_t vocab;
  bool tied;
  DType dtype;
};

model::ModelConfig ConfigOf(const Shape& shape) {
  model::ModelConfig config = model::TinyConfig();
  config.hidden_size = 40;
  config.num_layers = 4;
  config.head_dim = 8;
  config.num_heads = shape.heads;
  config.num_kv_heads = shape.kv_heads;
  config.intermediate_size = shape.intermediate;
  config.vocab_size = shape.vocab;
  config.tie_word_embeddings = shape.tied;
  config.dtype = shape.dtype;
  config.max_position_embeddings = 128;
  return config;
}

// Random weights: norms around 1, matrices that keep activations near 1.
std::string RandomWeights(const std::vector<model::TensorInfo>& tensors, DType dtype,
                          uint64_t seed) {
  Random random(seed);
  std::string bytes;
  for (const model::TensorInfo& tensor : tensors) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    const bool norm = tensor.shape.size() == 1;
    const size_t begin = bytes.size();
    bytes.resize(begin + static_cast<size_t>(count * DTypeBytes(dtype)));
    for (int64_t i = 0; i < count; ++i) {
      const float draw = static_cast<float>(random.Between(-1000, 1000)) / 1000;
      kernels::StoreFromF32(bytes.data() + begin, dtype, i,
                            norm ? 1 + draw / 4 : draw / std::sqrt(12.f));
    }
  }
  return bytes;
}

// Requests of all kinds, some over so flat a distribution that all candidates are needed.
std::vector<TestRequest> Requests(int64_t vocab) {
  std::vector<TestRequest> requests;
  Random random(99);
  for (int i = 0; i < 10; ++i) {
    TestRequest request;
    const int64_t length = i == 0 ? 1 : random.Between(2, 20);
    for (int64_t t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random.Between(0, vocab - 1)));
    }
    request.max_tokens = static_cast<int32_t>(random.Between(2, 5));
    v1::SequenceSampling& sampling = request.sampling;
    sampling.set_logprobs(true);
    sampling.set_top_logprobs(i % 3);
    sampling.set_temperature(i % 3 == 0 ? 0.f : i == 5 ? 50.f : 0.5f + 0.1f * i);
    sampling.set_seed(1000 + i);
    if (i % 2 == 1) sampling.set_top_p(0.97f);
    if (i == 4) sampling.set_top_k(20);
    if (i == 7) sampling.set_min_p(0.01f);
    if (i % 4 == 3) sampling.set_repetition_penalty(1.3f);
    if (i == 8) sampling.set_presence_penalty(0.5f);
    if (i == 9) sampling.add_bias_ids(static_cast<int32_t>(vocab - 1)), sampling.add_bias_values(4);
    requests.push_back(request);
  }
  return requests;
}

class RanksTest : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    config_ = ConfigOf(GetParam());
    dir_.Write("config.json", model::ConfigText(config_));
    const auto tensors = model::TensorsOf(config_);
    dir_.Write("model.safetensors",
               model::MakeSafetensorsHeader(tensors) + RandomWeights(tensors, config_.dtype, 3));
    requests_ = Requests(config_.vocab_size);
    TestPipeline plain(Options({4}, {1}, 1));
    for (const TestRequest& request : requests_) {
      expected_.push_back(plain.Generate({request}, 0)[0].bits());
    }
  }

  TestPipelineOptions Options(std::vector<int32_t> layers, std::vector<int> ranks, int threads) {
    return {.model_dir = dir_.path(),
            .backend = "cpu",
            .threads = threads,
            .layers = std::move(layers),
            .ranks = std::move(ranks),
            .block_size = 16,
            .num_blocks = 64,
            .max_batch_tokens = 64};
  }

  void ExpectSame(TestPipeline& pipeline, int32_t chunk) {
    const auto outputs = pipeline.Generate(requests_, chunk, 1);
    for (size_t i = 0; i < requests_.size(); ++i) {
      EXPECT_EQ(outputs[i].bits(), expected_[i]) << "request " << i;
    }
  }

  std::vector<int> RankCounts() const {
    std::vector<int> counts;
    for (const int ranks : {1, 2, 4, 8}) {
      if (model::CheckRanks(config_, ranks).ok()) counts.push_back(ranks);
    }
    return counts;
  }

  TempDir dir_;
  model::ModelConfig config_;
  std::vector<TestRequest> requests_;
  std::vector<std::vector<uint32_t>> expected_;
};

TEST_P(RanksTest, OneStageOfAnyNumber) {
  for (const int ranks : RankCounts()) {
    SCOPED_TRACE(ranks);
    TestPipeline pipeline(Options({4}, {ranks}, 1));
    ExpectSame(pipeline, 0);
    ExpectSame(pipeline, 5);
    for (int rank = 0; rank < ranks; ++rank) {
      const model::StageShare whole = model::WholeModel(config_);
      const v1::ShardReady& ready = pipeline.ready(0, rank);
      EXPECT_EQ(ready.weight_bytes(),
                model::ComputeShardBytes(config_, whole, ranks, rank).total());
      EXPECT_EQ(
          ready.kv_bytes(),
          4 * 64 * 16 * model::ResidentKvBytesPerToken(config_, ranks, DeviceKind::kCpu, rank));
      EXPECT_EQ(ready.activation_bytes(),
                model::WorkSpaceBytes(config_, true, 64, 64, ranks, rank));
    }
  }
}

// Every stage with its own number of ranks, drawn at random. TUTTI_SEED repeats a run.
TEST_P(RanksTest, StagesOfDifferentNumbers) {
  const char* given = std::getenv("TUTTI_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20;
  const std::vector<int> counts = RankCounts();
  const std::vector<std::vector<int32_t>> splits = {{1, 3}, {2, 2}, {1, 2, 1}, {1, 1, 1, 1}};
  Random random(seed);
  for (const auto& layers : splits) {
    std::vector<int> ranks;
    for (size_t i = 0; i < layers.size(); ++i) {
      ranks.push_back(counts[random.Between(0, static_cast<int64_t>(counts.size()) - 1)]);
    }
    SCOPED_TRACE(absl::StrJoin(layers, "+") + " over " + absl::StrJoin(ranks, "+"));
    TestPipeline pipeline(Options(layers, ranks, static_cast<int>(random.Between(1, 2))));
    ExpectSame(pipeline, static_cast<int32_t>(random.Between(0, 30)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RanksTest,
    ::testing::Values(Shape{"one_kv_head", 8, 1, 37, 600, true, DType::kBF16},
                      Shape{"two_kv_heads", 6, 2, 64, 640, false, DType::kF16},
                      Shape{"four_kv_heads", 8, 4, 45, 512, true, DType::kF32},
                      Shape{"eight_kv_heads", 16, 8, 88, 1000, false, DType::kBF16},
                      // Over 4 and 8 ranks each KV head is held by
                      // several, and parts of the vocabulary differ.
                      Shape{"odd_vocabulary", 8, 2, 72, 1237, false, DType::kBF16},
                      Shape{"odd_tied_vocabulary", 8, 2, 33, 777, true, DType::kF16},
                      // Over 2 and 8 ranks some hold a KV head twice; over 4
                      // and 8 some have no token.
                      Shape{"three_kv_heads", 12, 3, 40, 150, true, DType::kBF16}),
    [](const auto& info) { return info.param.name; });

// At batch 1 a rank sends at most 1.05 times two hidden vectors a layer and doubling.
TEST(RankBytes, PerTokenStayWithinTheFormula) {
  model::ModelConfig config = model::TinyConfig();
  config.hidden_size = 1024;
  config.num_heads = 8;
  config.num_kv_heads = 8;
  config.head_dim = 8;
  config.intermediate_size = 16;
  config.num_layers = 28;
  config.vocab_size = 512;
  TempDir dir;
  dir.Write("config.json", model::ConfigText(config));
  const auto tensors = model::TensorsOf(config);
  dir.Write("model.safetensors",
            model::MakeSafetensorsHeader(tensors) + RandomWeights(tensors, config.dtype, 3));
  for (const int ranks : {2, 4, 8}) {
    TestPipeline pipeline({.model_dir = dir.path(),
                           .backend = "cpu",
                           .ranks = {ranks},
                           .num_blocks = 8,
                           .max_batch_tokens = 16});
    TestRequest request{.prompt = {1}, .max_tokens = 10, .sampling = {}};
    request.sampling.set_temperature(0.8f);
    request.sampling.set_seed(5);
    pipeline.Generate({request}, 0);
    const double formula = 2.0 * 28 * std::countr_zero(static_cast<unsigned>(ranks)) * 1024 * 4;
    for (int rank = 0; rank < ranks; ++rank) {
      const double per_token =
          static_cast<double>(pipeline.exchanged(0, rank).bytes_out) / request.max_tokens;
      EXPECT_GE(per_token, formula);
      EXPECT_LE(per_token, formula * 1.05) << "rank " << rank << " of " << ranks;
    }
  }
}

}  // namespace
}  // namespace tutti::worker
