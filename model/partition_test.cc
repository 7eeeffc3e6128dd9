#include "model/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "model/checkpoint_testing.h"
#include "model/work_space.h"

namespace tutti::model {
namespace {

using testing::HasSubstr;

ModelConfig Qwen3Small(bool tied) {  // the shape of Qwen3-0.6B
  ModelConfig config = TinyConfig();
  config.hidden_size = 1024;
  config.intermediate_size = 3072;
  config.num_layers = 28;
  config.num_heads = 16;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.vocab_size = 151936;
  config.tie_word_embeddings = tied;
  return config;
}

std::vector<StageShare> Stages(const ModelConfig& config, const std::vector<int64_t>& layers) {
  std::vector<StageShare> shares;
  int64_t first = 0;
  for (int64_t n : layers) {
    shares.push_back({.first_layer = first, .num_layers = n});
    first += n;
  }
  shares.front().has_embedding = true;
  shares.back().has_head = true;
  EXPECT_EQ(first, config.num_layers);
  return shares;
}

TEST(WeightMap, ListsTheForwardPassInOrder) {
  const auto specs = ListWeights(
      TinyConfig(), {.first_layer = 1, .num_layers = 1, .has_embedding = true, .has_head = true});
  std::vector<std::string> names;
  for (const WeightSpec& spec : specs) names.push_back(spec.name);
  EXPECT_THAT(
      names, testing::ElementsAre(
                 "model.embed_tokens.weight", "model.layers.1.input_layernorm.weight",
                 "model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight",
                 "model.layers.1.self_attn.v_proj.weight", "model.layers.1.self_attn.q_norm.weight",
                 "model.layers.1.self_attn.k_norm.weight", "model.layers.1.self_attn.o_proj.weight",
                 "model.layers.1.post_attention_layernorm.weight",
                 "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight",
                 "model.layers.1.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"));
  EXPECT_EQ(WeightOf(TinyConfig(), Role::kQuery, 2).name, "model.layers.2.self_attn.q_proj.weight");
  EXPECT_THAT(WeightOf(TinyConfig(), Role::kQuery, 2).shape, testing::ElementsAre(32, 24));
  EXPECT_THAT(WeightOf(TinyConfig(), Role::kKeyNorm, 0).shape, testing::ElementsAre(8));
  EXPECT_EQ(WeightOf(TinyConfig(), Role::kFinalNorm, 0).layer, -1);
}

TEST(WeightMap, ATiedHeadHasTheEmbeddingsName) {
  ModelConfig config = TinyConfig();
  config.tie_word_embeddings = true;
  const WeightSpec head = WeightOf(config, Role::kHead, 0);
  EXPECT_EQ(head.name, "model.embed_tokens.weight");
  EXPECT_EQ(head.role, Role::kHead);
  EXPECT_EQ(head.owner, Owner::kLastStage);
}

TEST(WeightMap, RefusesLayersTheModelDoesNotHave) {
  const ModelConfig config = TinyConfig();
  EXPECT_TRUE(CheckStageShare(config, {.first_layer = 3, .num_layers = 0}).ok());
  for (const StageShare& share :
       {StageShare{0, 4}, StageShare{-1, 1}, StageShare{0, -1}, StageShare{3, 1},
        StageShare{INT64_MAX, INT64_MAX}, StageShare{1, INT64_MAX}, StageShare{INT64_MIN, 1}}) {
    const absl::Status status = CheckStageShare(config, share);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the model has 3"));
  }
}

TEST(SplitRange, CoversEverythingOnceInWholeUnits) {
  for (int64_t total : {0, 1, 7, 64, 65, 200, 151936}) {
    for (int64_t unit : {1, 3, 64}) {
      for (int ranks : {1, 2, 3, 4, 8}) {
        int64_t at = 0, least = INT64_MAX, most = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Range range = SplitRange(total, unit, ranks, rank);
          EXPECT_EQ(range.begin, at);
          EXPECT_TRUE(range.end % unit == 0 || range.end == total);
          at = range.end;
          least = std::min(least, range.size());
          most = std::max(most, range.size());
        }
        EXPECT_EQ(at, total);
        EXPECT_LE(most - least, 2 * unit - 1);
      }
    }
  }
}

TEST(CheckRanks, NamesTheNumberAtFaultAndTheNearestChoice) {
  ModelConfig config = TinyConfig();  // 4 heads, 2 KV heads, intermediate 40, vocabulary 200
  EXPECT_TRUE(CheckRanks(config, 1).ok());
  EXPECT_TRUE(CheckRanks(config, 2).ok());
  EXPECT_TRUE(CheckRanks(config, 4).ok()) << "two ranks share a KV head";
  for (int ranks : {0, -1, 3, 5, 6, 7, 16}) EXPECT_FALSE(CheckRanks(config, ranks).ok()) << ranks;
  const auto fault = [&](int ranks) { return std::string(CheckRanks(config, ranks).message()); };
  EXPECT_EQ(fault(3),
            "tensor-parallel size 3 must be 1, 2, 4 or 8; the nearest that this model takes is 4");
  EXPECT_EQ(fault(8),
            "tensor-parallel size 8 is more than num_attention_heads 4; the nearest that this "
            "model takes is 4");
  config.num_heads = 8;
  EXPECT_EQ(fault(8), "") << "some ranks have no token, and hold KV heads that others hold too";
  EXPECT_EQ(WidthsOfRank(config, 8, 0).vocab, 0);
  config.intermediate_size = 7;
  EXPECT_THAT(fault(8), HasSubstr("intermediate_size 7;"));
  EXPECT_EQ(fault(4), "") << "an odd width is shared unevenly";
  config.num_heads = 12;
  config.num_kv_heads = 3;
  EXPECT_EQ(fault(2), "") << "a KV head is held by both, by one of them twice";
  config.num_heads = 14;  // Qwen2.5-0.5B
  config.num_kv_heads = 2;
  EXPECT_EQ(fault(4), "");
  config.intermediate_size = 40;
  for (const int64_t vocab : {1, 63, 64, 151'643, 151'936}) {
    config.vocab_size = vocab;
    EXPECT_EQ(fault(8), "") << vocab << " is no multiple of anything";
  }
  config.num_heads = 2;
  EXPECT_EQ(fault(8),
            "tensor-parallel size 8 is more than num_attention_heads 2; the nearest that this "
            "model takes is 2");
}

// Query heads of a rank belong to whole KV heads, or all to one, whose rows the rank holds.
TEST(WidthsOfRank, GiveEveryRankTheKvHeadsOfItsQueries) {
  ModelConfig config = TinyConfig();
  config.vocab_size = 640;
  config.intermediate_size = 37;
  for (const auto& [heads, kv_heads] : std::vector<std::pair<int, int>>{{8, 1},
                                                                        {14, 2},
                                                                        {16, 2},
                                                                        {12, 4},
                                                                        {16, 4},
                                                                        {8, 8},
                                                                        {40, 8},
                                                                        {64, 64},
                                                                        {20, 20},
                                                                        {12, 3},
                                                                        {9, 3},
                                                                        {24, 6},
                                                                        {28, 7},
                                                                        {32, 16}}) {
    config.num_heads = heads;
    config.num_kv_heads = kv_heads;
    for (int ranks : {1, 2, 4, 8}) {
      if (!CheckRanks(config, ranks).ok()) continue;
      SCOPED_TRACE(testing::Message() << heads << "/" << kv_heads << " over " << ranks);
      RankWidths sum;
      int64_t query_at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const RankWidths own = WidthsOfRank(config, ranks, rank);
        const std::vector<int64_t> held = KvHeadsOfRank(config, ranks, rank);
        for (const ShardTensor& t : ListShardTensors(config, {.num_layers = 1}, ranks, rank)) {
          if (t.spec.role == Role::kQuery) {
            EXPECT_EQ(t.rows, (Range{query_at, query_at + own.query}));
          }
          if (t.spec.role == Role::kKey) {
            EXPECT_EQ(t.held_rows, own.key_value);
            EXPECT_EQ(t.rows.begin, held.front() * config.head_dim);
            EXPECT_EQ(t.rows.end, (held.back() + 1) * config.head_dim);
            EXPECT_EQ(std::accumulate(t.copies.begin(), t.copies.end(), int64_t{0}),
                      t.copies.empty() ? 0 : static_cast<int64_t>(held.size()));
          }
          if (t.spec.role == Role::kGate) {
            EXPECT_EQ(t.rows.size(), own.intermediate);
          }
        }
        const int64_t own_heads = own.query / config.head_dim;
        const auto held_heads = static_cast<int64_t>(held.size());
        ASSERT_EQ(own_heads % held_heads, 0) << "a backend's groups are even";
        const int64_t group = own_heads / held_heads;
        EXPECT_LE(own.key_value, own.query);
        if (kv_heads % ranks == 0 || ranks % kv_heads == 0) {
          EXPECT_EQ(held_heads, std::max(1, kv_heads / ranks)) << "none twice without need";
        }
        for (int64_t h = 0; h < own_heads; ++h) {
          const int64_t global = query_at / config.head_dim + h;
          EXPECT_EQ(held[static_cast<size_t>(h / group)], global / (heads / kv_heads))
              << "head " << global;
        }
        query_at += own.query;
        sum.query += own.query;
        sum.intermediate += own.intermediate;
        sum.vocab += own.vocab;
        EXPECT_GT(own.query, 0);
        EXPECT_GT(own.vocab, 0);
      }
      EXPECT_EQ(sum.query, config.q_width());
      EXPECT_EQ(sum.intermediate, 37);
      EXPECT_EQ(sum.vocab, 640);
    }
  }
}

TEST(WorkSpace, OverRanksSharesWhatIsSplitAndAddsWhatIsExchanged) {
  ModelConfig config = Qwen3Small(true);
  const int64_t alone = WorkSpaceBytes(config, false, 512, 16);
  EXPECT_EQ(alone, 512 * (3 * 1024 + 2 * 3072 + 3072) * 4);
  // Half of the widths; delta is one of the three buffers.
  EXPECT_EQ(WorkSpaceBytes(config, false, 512, 16, 2, 0),
            512 * (2 * 1024 + 3072 + 1536) * 4 + 3 * 512 * 1024 * 4);
  EXPECT_EQ(ResidentKvBytesPerToken(config), 8 * 256 * 2);
  EXPECT_EQ(ResidentKvBytesPerToken(config, 4), 2 * 256 * 2);
  config.num_kv_heads = 2;
  EXPECT_EQ(ResidentKvBytesPerToken(config, 8), 256 * 2) << "each head is held four times";
}

TEST(LeafBegins, RanksOwnWholeLeaves) {
  ModelConfig config = Qwen3Small(false);
  EXPECT_THAT(LeafBegins(config, Role::kDown),
              testing::ElementsAre(0, 384, 768, 1152, 1536, 1920, 2304, 2688, 3072));
  for (int64_t heads : {2, 6, 14, 16, 64}) {
    config.num_heads = heads;
    config.num_kv_heads = 2;
    for (Role role : {Role::kAttentionOutput, Role::kDown}) {
      const auto begin = LeafBegins(config, role);
      ASSERT_EQ(begin.size(), kLeaves + 1);
      EXPECT_EQ(begin.back(), role == Role::kDown ? 3072 : heads * 128);
      for (int ranks : {1, 2, 4, 8}) {
        if (!CheckRanks(config, ranks).ok()) continue;
        for (int rank = 0; rank < ranks; ++rank) {
          const auto tensors =
              ListShardTensors(config, {.first_layer = 0, .num_layers = 1}, ranks, rank);
          for (const ShardTensor& tensor : tensors) {
            if (tensor.spec.role != role) continue;
            EXPECT_EQ(tensor.cols.begin, begin[rank * kLeaves / ranks]);
            EXPECT_EQ(tensor.cols.end, begin[(rank + 1) * kLeaves / ranks]);
          }
        }
      }
    }
  }
}

// Every element of the model is read by some shard; those of split tensors by exactly one rank.
TEST(ListShardTensors, ShardsCoverTheModel) {
  const ModelConfig config = TinyConfig();
  for (int ranks : {1, 2, 4}) {
    std::map<std::string, std::vector<int>> reads;
    for (const StageShare& share : Stages(config, {1, 2})) {
      for (int rank = 0; rank < ranks; ++rank) {
        for (const ShardTensor& t : ListShardTensors(config, share, ranks, rank)) {
          const int64_t cols = t.spec.shape.size() > 1 ? t.spec.shape[1] : 1;
          auto& count = reads[t.spec.name];
          count.resize(static_cast<size_t>(t.spec.shape[0] * cols));
          EXPECT_LE(t.bytes.end, static_cast<int64_t>(count.size()) * 2);
          for (int64_t r = t.rows.begin; r < t.rows.end; ++r) {
            for (int64_t c = t.cols.begin; c < t.cols.end; ++c) {
              ++count[static_cast<size_t>(r * cols + c)];
              EXPECT_GE((r * cols + c) * 2, t.bytes.begin);
              EXPECT_LE((r * cols + c) * 2 + 2, t.bytes.end);
            }
          }
        }
      }
    }
    EXPECT_EQ(reads.size(), TensorsOf(config).size());
    for (const auto& [name, count] : reads) {
      const bool replicated = name.find("norm") != std::string::npos;
      // With 4 ranks and 2 KV heads, two ranks hold each head.
      const bool doubled = ranks == 4 && (name.find("k_proj") != std::string::npos ||
                                          name.find("v_proj") != std::string::npos);
      for (int n : count) ASSERT_EQ(n, replicated ? ranks : doubled ? 2 : 1) << name;
    }
  }
}

TEST(ListShardTensors, ARowSplitIsContiguousAndAColumnSplitSpans) {
  const ModelConfig config = TinyConfig();
  for (const ShardTensor& t : ListShardTensors(config, {.num_layers = 1}, 2, 1)) {
    if (t.spec.role == Role::kGate) {  // [40, 24]: rows 20 to 40
      EXPECT_EQ(t.bytes, (Range{20 * 24 * 2, 40 * 24 * 2}));
    } else if (t.spec.role == Role::kDown) {  // [24, 40]: columns 20 to 40 of every row
      EXPECT_EQ(t.bytes, (Range{20 * 2, 24 * 40 * 2}));
    }
  }
}

TEST(ShardBytes, UnpackedBytesAreTheCheckpoints) {
  for (const bool tied : {false, true}) {
    const ModelConfig config = Qwen3Small(tied);
    PackingRule rule = kUnpacked;
    rule.vector_dtype = config.dtype;
    int64_t total = 0;
    for (const StageShare& share : Stages(config, {5, 20, 3})) {
      total += ComputeShardBytes(config, share, 1, 0, rule).total();
    }
    int64_t expected = 0;
    for (const TensorInfo& tensor : TensorsOf(config)) expected += tensor.bytes;
    // On two stages a tied matrix stands twice.
    const int64_t embedding = config.vocab_size * config.hidden_size * 2;
    EXPECT_EQ(total, expected + (tied ? embedding : 0));
    EXPECT_EQ(ComputeShardBytes(config, WholeModel(config), 1, 0, rule).total(), expected);
  }
}

TEST(ShardBytes, CountsATiedMatrixOncePerStage) {
  const ModelConfig config = Qwen3Small(true);
  const int64_t matrix = 151936LL * 1024 * 2;
  const ShardBytes whole = ComputeShardBytes(config, WholeModel(config), 1, 0);
  EXPECT_EQ(whole.embedding, matrix);
  EXPECT_EQ(whole.head, 0);
  const auto stages = Stages(config, {14, 14});
  EXPECT_EQ(ComputeShardBytes(config, stages[0], 1, 0).embedding, matrix);
  EXPECT_EQ(ComputeShardBytes(config, stages[0], 1, 0).head, 0);
  EXPECT_EQ(ComputeShardBytes(config, stages[1], 1, 0).embedding, 0);
  EXPECT_EQ(ComputeShardBytes(config, stages[1], 1, 0).head, matrix);
  // One layer of Qwen3-0.6B by hand: qkv 4096 x 1024, output 1024 x 2048, gate and up 6144 x 1024,
  // down 1024 x 3072.
  const int64_t layer = (4096 * 1024 + 1024 * 2048 + 6144 * 1024 + 1024 * 3072) * 2LL;
  EXPECT_EQ(whole.layers, 28 * layer);
  EXPECT_EQ(whole.vectors, (28 * (1024 + 1024 + 128 + 128) + 1024) * 4);
}

TEST(ShardBytes, PadsAsTheBackendPacks) {
  ModelConfig config = TinyConfig();
  config.hidden_size = 23;  // odd: columns pad to 24
  const StageShare layer = {.num_layers = 1};
  // Query, key and value: 32 + 16 + 16 rows are one matrix of 64. Gate and up: 80 rows pad to 128.
  // Output: 23 rows pad to 64, its 4 heads of 8 lie in every second leaf. Down: 8 leaves of 5
  // columns pad to 6.
  const int64_t elements = 64 * 24 + 64 * 32 + 128 * 24 + 64 * 48;
  EXPECT_EQ(ComputeShardBytes(config, layer, 1, 0).layers, elements * 2);
  const StageShare ends = {.num_layers = 0, .has_embedding = true, .has_head = true};
  EXPECT_EQ(ComputeShardBytes(config, ends, 1, 0).embedding, 256 * 24 * 2);
  EXPECT_EQ(ComputeShardBytes(config, ends, 1, 0).head, 256 * 24 * 2);
  EXPECT_EQ(ComputeShardBytes(config, ends, 1, 0).vectors, 32 * 4) << "a cache line";
}

TEST(ShardBytes, RanksShareTheMatrices) {
  const ModelConfig config = Qwen3Small(false);
  const int64_t alone = ComputeShardBytes(config, WholeModel(config), 1, 0).total();
  for (int ranks : {2, 4, 8}) {
    int64_t total = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const ShardBytes part = ComputeShardBytes(config, WholeModel(config), ranks, rank);
      total += part.total() - part.vectors;
    }
    EXPECT_EQ(total, alone - ComputeShardBytes(config, WholeModel(config), 1, 0).vectors) << ranks;
  }
}

TEST(KvBytes, PerTokenAndRank) {
  const ModelConfig config = Qwen3Small(true);
  const StageShare half = {.first_layer = 0, .num_layers = 14};
  EXPECT_EQ(KvBytesPerToken(config, half, 1), 14 * 2 * 8 * 128 * 2);
  EXPECT_EQ(KvBytesPerToken(config, half, 1, DType::kF32), 14 * 2 * 8 * 128 * 4);
  EXPECT_EQ(KvBytesPerToken(config, half, 8), 14 * 2 * 1 * 128 * 2);
  EXPECT_EQ(KvBytesPerToken(TinyConfig(), {.num_layers = 1}, 4), 2 * 1 * 8 * 2);
}

// A head of codes beside layers of bf16, or of another format.
TEST(WorkSpace, AHeadWhoseRowsAreRoundedIsForCpus) {
  ModelConfig config = TinyConfig();
  QuantConfig rounds = {.method = Method::kCompressedTensors, .bits = 8, .group_size = -1};
  rounds.packed = PackedFormat::kInt;
  rounds.quantises_activations = true;
  config.quant = QuantFormats({rounds}, 0);
  config.quant.Clear(config.num_layers);
  EXPECT_TRUE(CheckDeviceKind(config, DeviceKind::kCuda).ok());
  config.quant.Put(Role::kHead, -1, config.quant.NumberOf(rounds));
  EXPECT_TRUE(CheckDeviceKind(config, DeviceKind::kCpu).ok());
  EXPECT_THAT(std::string(CheckDeviceKind(config, DeviceKind::kCuda).message()),
              HasSubstr("round activations to int8"));
}

}  // namespace
}  // namespace tutti::model
