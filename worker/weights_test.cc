#include "worker/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model/config_json.h"
#include "model/partition.h"
#include "worker/kv_store.h"
#include "worker/pipeline_testing.h"
#include "worker/transformer.h"

namespace tutti::worker {
namespace {

using ::testing::HasSubstr;

class WeightsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto backend = kernels::CreateBackend(GetParam(), {.num_threads = 1});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }
  static model::ModelConfig Config(const std::string& checkpoint) {
    return model::LoadModelConfig(GoldenDir(checkpoint)).value();
  }
  std::unique_ptr<kernels::Backend> backend_;
};

TEST_P(WeightsTest, LoadsAShareAndReportsProgress) {
  const model::ModelConfig config = Config("grouped-tied-bf16");
  std::vector<std::pair<int64_t, int64_t>> told;
  const auto weights =
      LoadWeights(GoldenDir("grouped-tied-bf16"), config, {.first_layer = 1, .num_layers = 2},
                  backend_.get(), [&](int64_t loaded, int64_t total) {
                    // A slow disk is told of more often.
                    if (told.empty() || loaded > told.back().first)
                      told.emplace_back(loaded, total);
                  });
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->layers.size(), 2u);
  EXPECT_EQ(weights->embedding, nullptr);
  EXPECT_EQ(weights->head, nullptr);
  EXPECT_EQ(weights->final_norm.data, nullptr);
  const LayerWeights& layer = weights->layers[0];
  EXPECT_EQ(layer.qkv->out_features(), 64 + 32 + 32);
  EXPECT_EQ(layer.qkv->in_features(), 32);
  EXPECT_EQ(layer.attention_output->out_features(), 32);
  EXPECT_EQ(layer.attention_output->in_features(), 64);
  EXPECT_EQ(layer.gate_up->out_features(), 200);
  EXPECT_EQ(layer.down->in_features(), 100);
  EXPECT_EQ(layer.input_norm.cols, 32);
  EXPECT_EQ(layer.query_norm.cols, 16);
  EXPECT_EQ(layer.qkv_bias.data, nullptr);
  ASSERT_EQ(told.size(), 8u);  // four products a layer
  EXPECT_EQ(told.back().first, told.back().second);
  for (size_t i = 1; i < told.size(); ++i) EXPECT_GT(told[i].first, told[i - 1].first);
}

TEST_P(WeightsTest, ATiedHeadIsTheEmbeddingWhereBothAre) {
  const model::ModelConfig config = Config("grouped-tied-bf16");
  const std::string dir = GoldenDir("grouped-tied-bf16");
  const auto whole = LoadWeights(dir, config, model::WholeModel(config), backend_.get(), {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->head, whole->embedding);
  const auto first = LoadWeights(dir, config, {0, 2, true, false}, backend_.get(), {});
  const auto last = LoadWeights(dir, config, {2, 1, false, true}, backend_.get(), {});
  ASSERT_TRUE(first.ok() && last.ok());
  EXPECT_EQ(first->head, nullptr);
  EXPECT_EQ(last->embedding, nullptr);
  ASSERT_NE(last->head, nullptr);
  // The matrix is held twice when the stages part.
  EXPECT_NEAR(first->bytes() + last->bytes(), whole->bytes() + last->head->bytes(), 512);
}

TEST_P(WeightsTest, AnUntiedHeadIsItsOwnMatrix) {
  const model::ModelConfig config = Config("narrow-untied-f32");
  const auto whole = LoadWeights(GoldenDir("narrow-untied-f32"), config, model::WholeModel(config),
                                 backend_.get(), {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_NE(whole->head, whole->embedding);
}

TEST_P(WeightsTest, HoldsWhatThePartitionPredicts) {
  for (const char* name : {"grouped-tied-bf16", "narrow-untied-f32", "single-kv-tied-f16"}) {
    const model::ModelConfig config = Config(name);
    const auto weights =
        LoadWeights(GoldenDir(name), config, model::WholeModel(config), backend_.get(), {});
    ASSERT_TRUE(weights.ok()) << weights.status();
    model::PackingRule packing = GetParam() == "cpu" ? model::kCpuPacking : model::kUnpacked;
    packing.vector_multiple = model::kVectorMultiple;
    EXPECT_EQ(weights->bytes(),
              model::ComputeShardBytes(config, model::WholeModel(config), 1, 0, packing).total())
        << name;
  }
}

// Fused matrices, experts and heads in another order take the planned bytes, on any rank.
TEST_P(WeightsTest, HoldsWhatThePartitionPredictsForEveryFamily) {
  for (const char* name : {"qwen2-tied-bf16", "qwen3-moe-bf16", "qwen1-f16", "chatglm3-f16"}) {
    const std::string dir = std::string("families/") + name;
    const model::ModelConfig config = Config(dir);
    const model::PackingRule packing = GetParam() == "cpu" ? model::kCpuPacking : model::kUnpacked;
    for (const int ranks : {1, 2}) {
      if (!model::CheckRanks(config, ranks).ok()) continue;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto weights = LoadWeights(GoldenDir(dir), config, model::WholeModel(config),
                                         backend_.get(), {}, {.ranks = ranks, .rank = rank});
        ASSERT_TRUE(weights.ok()) << weights.status();
        const model::ShardBytes bytes =
            model::ComputeShardBytes(config, model::WholeModel(config), ranks, rank, packing);
        EXPECT_EQ(weights->bytes() - weights->vectors->bytes(), bytes.total() - bytes.vectors)
            << name << ", rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST_P(WeightsTest, NamesWhatIsWrong) {
  model::ModelConfig config = Config("grouped-tied-bf16");
  const std::string dir = GoldenDir("grouped-tied-bf16");
  EXPECT_EQ(LoadWeights(dir, config, {0, 4, true, true}, backend_.get(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  config.hidden_size = 64;
  EXPECT_THAT(std::string(LoadWeights(dir, config, model::WholeModel(config), backend_.get(), {})
                              .status()
                              .message()),
              HasSubstr("shape"));
  EXPECT_EQ(LoadWeights(dir + "-absent", config, model::WholeModel(config), backend_.get(), {})
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST_P(WeightsTest, AShareOpensOnlyItsOwnFiles) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::path(::testing::TempDir()) / ("tutti_share_" + GetParam());
  fs::remove_all(dir);
  fs::copy(GoldenDir("grouped-tied-bf16-sharded"), dir);
  const model::ModelConfig config = model::LoadModelConfig(dir.string()).value();
  // Some file must be dispensable for the first stage.
  int loaded_without = 0;
  for (const char* file : {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                           "model-00003-of-00003.safetensors"}) {
    fs::rename(dir / file, dir / "hidden");
    const auto weights = LoadWeights(dir.string(), config, {0, 1, true, false}, backend_.get(), {});
    if (weights.ok()) ++loaded_without;
    fs::rename(dir / "hidden", dir / file);
  }
  EXPECT_GE(loaded_without, 1);
  fs::remove_all(dir);
}

TEST_P(WeightsTest, KvStoreTakesMemoryForEachLayer) {
  const kernels::KvShape shape = {
      .dtype = DType::kBF16, .block_size = 16, .num_blocks = 3, .kv_heads = 2, .head_dim = 8};
  const auto store = KvStore::Create(backend_.get(), shape, 4);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_GE(store->bytes(), 4 * backend_->KvLayerBytes(shape));
  EXPECT_NE(store->layer(0).data, store->layer(3).data);
  EXPECT_EQ(store->layer(3).shape.num_blocks, 3);
}

TEST_P(WeightsTest, AKvStoreThatCannotFitSaysWhere) {
  const kernels::KvShape shape = {.dtype = DType::kF32,
                                  .block_size = 4096,
                                  .num_blocks = 1 << 26,
                                  .kv_heads = 64,
                                  .head_dim = 128};
  const auto store = KvStore::Create(backend_.get(), shape, 2);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("KV cache of layer 1 of 2"));
}

INSTANTIATE_TEST_SUITE_P(Backends, WeightsTest, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

v1::AssignShard WholeShard(const model::ModelConfig& config) {
  v1::AssignShard shard;
  shard.set_num_stages(1);
  shard.set_num_ranks(1);
  shard.set_num_layers(static_cast<int32_t>(config.num_layers));
  shard.set_has_embedding(true);
  shard.set_has_head(true);
  shard.set_block_size(16);
  shard.set_num_blocks(8);
  shard.set_max_batch_tokens(32);
  shard.set_max_sequences(4);
  shard.set_max_model_len(64);
  return shard;
}

TEST(TransformerFactory, RefusesShardsTheModelDoesNotHave) {
  auto backend = kernels::CreateBackend("reference", {}).value();
  const std::string dir = GoldenDir("grouped-tied-f32");
  const model::ModelConfig config = model::LoadModelConfig(dir).value();
  const StageRunnerFactory load = MakeTransformerFactory({dir, config, backend.get()});
  const auto code = [&](auto change) {
    v1::AssignShard shard = WholeShard(config);
    change(&shard);
    return load(shard, {}).status().code();
  };
  EXPECT_EQ(code([](auto*) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code([](auto* s) { s->set_num_layers(4); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto* s) { s->set_num_ranks(8); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](auto* s) { s->set_num_ranks(2); }), absl::StatusCode::kFailedPrecondition)
      << "no way to the others";
  EXPECT_EQ(code([](auto* s) { s->set_max_model_len(513); }), absl::StatusCode::kInvalidArgument);
}

TEST(TransformerFactory, RefusesShardsAboveItsMemory) {
  auto backend = kernels::CreateBackend("reference", {}).value();
  const std::string dir = GoldenDir("grouped-tied-f32");
  const model::ModelConfig config = model::LoadModelConfig(dir).value();
  const auto load = [&](int64_t memory_bytes) {
    return MakeTransformerFactory({dir, config, backend.get(), memory_bytes})(WholeShard(config),
                                                                              {})
        .status();
  };
  EXPECT_EQ(load(10'000'000), absl::OkStatus());
  EXPECT_EQ(load(100'000).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(load(100'000).message()), HasSubstr("this worker may use 100000"));
}

}  // namespace
}  // namespace tutti::worker
