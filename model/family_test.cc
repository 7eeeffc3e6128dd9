// The families' configurations and tensors: the fields that each reads or refuses by name, and real
// files of all of them.
#include "model/family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/checkpoint_testing.h"
#include "model/config_json.h"
#include "model/limits.h"
#include "model/partition.h"
#include "model/rotary.h"

namespace tutti::model {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Scaling = RopeConfig::Scaling;

absl::StatusOr<ModelConfig> Parse(const json& root) {
  return ParseModelConfig(root.dump(), "config.json");
}

ModelConfig Must(const json& root) {
  const auto config = Parse(root);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(ModelConfig());
}

void ExpectRefused(json root, const char* name, const json& value, absl::StatusCode code,
                   const std::string& text) {
  root[name] = value;
  const auto config = Parse(root);
  EXPECT_EQ(config.status().code(), code) << name << ": " << config.status();
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(text)) << name;
}

void ExpectUnsupported(const json& root, const char* name, const json& value,
                       const std::string& text) {
  ExpectRefused(root, name, value, absl::StatusCode::kUnimplemented, text);
}

void ExpectInvalid(const json& root, const char* name, const json& value, const std::string& text) {
  ExpectRefused(root, name, value, absl::StatusCode::kInvalidArgument, text);
}

json Llama() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 100, "num_hidden_layers": 2,
    "num_attention_heads": 4, "vocab_size": 320, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5, "torch_dtype": "float16"})");
}

json Qwen2() {
  json root = Llama();
  root["architectures"] = {"Qwen2ForCausalLM"};
  root["model_type"] = "qwen2";
  root["num_key_value_heads"] = 2;
  root["rope_theta"] = 1e6;
  return root;
}

json Qwen3Moe() {
  json root = Qwen2();
  root["architectures"] = {"Qwen3MoeForCausalLM"};
  root["model_type"] = "qwen3_moe";
  root["head_dim"] = 32;
  root["num_experts"] = 6;
  root["num_experts_per_tok"] = 2;
  root["moe_intermediate_size"] = 24;
  root["norm_topk_prob"] = true;
  return root;
}

json Qwen1() {
  return json::parse(R"({"architectures": ["QWenLMHeadModel"], "model_type": "qwen",
    "hidden_size": 64, "intermediate_size": 88, "kv_channels": 16, "layer_norm_epsilon": 1e-6,
    "max_position_embeddings": 64, "no_bias": true, "num_attention_heads": 4,
    "num_hidden_layers": 3, "rotary_emb_base": 10000, "rotary_pct": 1.0, "seq_length": 16,
    "tie_word_embeddings": false, "use_dynamic_ntk": true, "use_logn_attn": true,
    "vocab_size": 300})");
}

json ChatGlm3() {
  return json::parse(R"({"architectures": ["ChatGLMModel"], "model_type": "chatglm",
    "add_bias_linear": false, "add_qkv_bias": true, "ffn_hidden_size": 72, "hidden_size": 64,
    "kv_channels": 16, "layernorm_epsilon": 1e-5, "multi_query_attention": true,
    "multi_query_group_num": 2, "num_attention_heads": 8, "num_layers": 2, "original_rope": true,
    "padded_vocab_size": 290, "post_layer_norm": true, "rmsnorm": true, "seq_length": 256,
    "torch_dtype": "float16", "eos_token_id": 2})");
}

TEST(Llama, FillsInWhatOlderFilesLeaveOut) {
  const ModelConfig config = Must(Llama());
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_EQ(config.rope.rotary_dim, 16);
  EXPECT_EQ(config.dtype, DType::kF16);
  EXPECT_FALSE(config.attention_bias || config.qk_norm || config.has_experts());
  ExpectInvalid(Llama(), "num_attention_heads", 3, "head_dim is missing");
}

TEST(Llama, ReadsScaledRotaryEmbedding) {
  json root = Llama();
  root["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  ModelConfig config = Must(root);
  EXPECT_EQ(config.rope.scaling, Scaling::kLinear);
  EXPECT_EQ(config.max_position_embeddings, 4 * 128);
  root["rope_scaling"] = {
      {"rope_type", "dynamic"}, {"factor", 2.0}, {"original_max_position_embeddings", 32}};
  config = Must(root);
  EXPECT_EQ(config.rope.original_context, 128) << "transformers takes the one written down";
  EXPECT_EQ(config.max_position_embeddings, 2 * 128);
  root["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 32}};
  config = Must(root);
  EXPECT_EQ(config.rope.scaling, Scaling::kLlama3);
  EXPECT_EQ(config.rope.original_context, 32);
  EXPECT_EQ(config.max_position_embeddings, 128) << "the longer context is written down";
  json bad = root["rope_scaling"];
  bad["high_freq_factor"] = 1.0;
  ExpectInvalid(root, "rope_scaling", bad, "rope_scaling: high_freq_factor 1 must be above");
  bad.erase("high_freq_factor");
  ExpectInvalid(root, "rope_scaling", bad, "rope_scaling: high_freq_factor is missing");
  ExpectInvalid(root, "rope_scaling", {{"type", "linear"}, {"factor", 0.5}}, "factor is 0.5");
  ExpectInvalid(root, "rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}},
                "rope_scaling and rope_parameters differ");
}

TEST(Qwen2, ReadsYarnAsDocumented) {
  json root = Qwen2();
  root["max_position_embeddings"] = 32768;
  root["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  const ModelConfig config = Must(root);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_EQ(config.rope.scaling, Scaling::kYarn);
  EXPECT_NEAR(config.rope.attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(config.max_position_embeddings, 131072);
  root["rope_theta"] = 1;
  EXPECT_THAT(std::string(Parse(root).status().message()), HasSubstr("rope_theta must be above 1"));
  root = Qwen2();  // the original context is the one written down
  root["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  EXPECT_EQ(Must(root).rope.original_context, root["max_position_embeddings"]);
  root = Qwen2();
  root["sliding_window"] = 32;
  ExpectUnsupported(root, "use_sliding_window", true, "use_sliding_window true");
  root["max_window_layers"] = 2;
  root["use_sliding_window"] = true;
  Must(root);  // for layers the model does not have
}

TEST(Qwen3Moe, ReadsItsExperts) {
  const ModelConfig config = Must(Qwen3Moe());
  EXPECT_EQ(config.num_experts, 6);
  EXPECT_EQ(config.experts_per_token, 2);
  EXPECT_EQ(config.expert_intermediate_size, 24);
  EXPECT_TRUE(config.norm_topk_prob && config.qk_norm);
  ExpectInvalid(Qwen3Moe(), "num_experts_per_tok", 7, "num_experts_per_tok is 7");
  ExpectInvalid(Qwen3Moe(), "num_experts", kExpertsMax + 1, "num_experts is");
  json saved_again = Qwen3Moe();  // by transformers 5
  saved_again["num_local_experts"] = saved_again["num_experts"];
  saved_again.erase("num_experts");
  EXPECT_EQ(Must(saved_again).num_experts, 6);
  ExpectInvalid(saved_again, "num_experts", 7, "num_experts and num_local_experts differ");
  json many = Qwen3Moe();
  many["num_hidden_layers"] = kNumLayersMax;
  ExpectInvalid(many, "num_experts", kExpertsMax, "more tensors than the limit");
}

TEST(Qwen1, ReadsItsOwnNames) {
  const ModelConfig config = Must(Qwen1());
  EXPECT_EQ(config.intermediate_size, 44) << "of one branch";
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_position_embeddings, 64);
  EXPECT_EQ(config.rope.scaling, Scaling::kDynamicNtk);
  EXPECT_EQ(config.rope.original_context, 16);
  EXPECT_EQ(config.logn_length, 16);
  EXPECT_EQ(config.dtype, DType::kBF16);
  json off = Qwen1();
  off["use_dynamic_ntk"] = false;
  off["use_logn_attn"] = false;
  off["torch_dtype"] = "float32";
  EXPECT_EQ(Must(off).rope.scaling, Scaling::kNone);
  EXPECT_EQ(Must(off).logn_length, 0);
  EXPECT_EQ(Must(off).dtype, DType::kF32);
  ExpectUnsupported(Qwen1(), "no_bias", false, "no_bias false");
  ExpectUnsupported(Qwen1(), "rotary_pct", 0.5, "rotary_pct");
  ExpectUnsupported(Qwen1(), "use_cache_quantization", true, "use_cache_quantization");
  ExpectInvalid(Qwen1(), "intermediate_size", 89, "intermediate_size 89 is odd");
  ExpectInvalid(Qwen1(), "kv_channels", 8, "do not make hidden_size 64");
}

TEST(ChatGlm3, ReadsItsOwnNames) {
  json root = ChatGlm3();
  root["rope_ratio"] = 500;
  const ModelConfig config = Must(root);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.rope.theta, 5e6);
  EXPECT_EQ(config.rope.rotary_dim, 8);
  EXPECT_TRUE(config.rope.interleaved && config.attention_bias);
  EXPECT_EQ(config.vocab_size, 290);
  EXPECT_EQ(config.dtype, DType::kF16);
  EXPECT_EQ(Must(ChatGlm3()).rope.theta, 10000);
  ExpectUnsupported(ChatGlm3(), "rope_ratio", 16, "rope_ratio 16 is not supported");
  ExpectUnsupported(ChatGlm3(), "quantization_bit", 4, "quantised");
  ExpectUnsupported(ChatGlm3(), "fp32_residual_connection", true, "fp32_residual_connection true");
  ExpectUnsupported(ChatGlm3(), "rmsnorm", false, "rmsnorm false");
  ExpectUnsupported(ChatGlm3(), "multi_query_attention", false, "multi_query_attention false");
  ExpectInvalid(ChatGlm3(), "multi_query_group_num", 3, "does not divide");
  ExpectInvalid(ChatGlm3(), "kv_channels", 18, "not a multiple of 4");
}

// The roles that share a tensor cover its rows once, in order.
TEST(WeightMap, FusedTensorsAreCoveredByTheirRoles) {
  for (const json& root : {Qwen1(), ChatGlm3(), Qwen2(), Qwen3Moe(), Llama()}) {
    const ModelConfig config = Must(root);
    std::map<std::string, int64_t> covered, rows;
    for (const WeightSpec& spec : ListWeights(config, WholeModel(config))) {
      EXPECT_EQ(spec.first_row, covered[spec.name]) << spec.name;
      covered[spec.name] += spec.shape[0];
      rows[spec.name] = spec.tensor_rows;
    }
    EXPECT_EQ(covered, rows);
    std::set<std::string> listed;
    for (const CheckpointTensor& tensor : ListCheckpointTensors(config)) {
      EXPECT_TRUE(listed.insert(tensor.name).second) << tensor.name;
      EXPECT_EQ(tensor.shape[0], rows[tensor.name]);
    }
    EXPECT_EQ(listed.size(), rows.size());
  }
  const ModelConfig glm = Must(ChatGlm3());
  const WeightSpec key = WeightOf(glm, Role::kKey, 1);
  EXPECT_EQ(key.name, "transformer.encoder.layers.1.self_attention.query_key_value.weight");
  EXPECT_EQ(key.first_row, 128);
  EXPECT_EQ(key.tensor_rows, 128 + 32 + 32);
  EXPECT_EQ(WeightOf(glm, Role::kUp, 0).first_row, 72) << "the gate is the first half";
  const ModelConfig qwen = Must(Qwen1());
  EXPECT_EQ(WeightOf(qwen, Role::kGate, 0).name, "transformer.h.0.mlp.w2.weight");
}

TEST(WeightMap, ExpertsAreListedOneAfterTheOther) {
  const ModelConfig config = Must(Qwen3Moe());
  const auto specs = ListWeights(config, {.first_layer = 1, .num_layers = 1});
  std::vector<std::string> names;
  for (const WeightSpec& spec : specs) {
    if (spec.expert >= 0 && spec.expert < 2) names.push_back(spec.name);
  }
  const std::string prefix = "model.layers.1.mlp.experts.";
  EXPECT_THAT(names,
              testing::ElementsAre(prefix + "0.gate_proj.weight", prefix + "0.up_proj.weight",
                                   prefix + "0.down_proj.weight", prefix + "1.gate_proj.weight",
                                   prefix + "1.up_proj.weight", prefix + "1.down_proj.weight"));
  EXPECT_THAT(WeightOf(config, Role::kExpertDown, 0, 5).shape, testing::ElementsAre(64, 24));
}

TEST(CheckCheckpoint, HoldsForEveryFamily) {
  for (const json& root : {Qwen1(), ChatGlm3(), Qwen2(), Qwen3Moe(), Llama()}) {
    const ModelConfig config = Must(root);
    TempDir dir;
    std::vector<TensorInfo> tensors = TensorsOf(config);
    dir.Write("model.safetensors", FileOf(tensors));
    auto checkpoint = Checkpoint::Open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_TRUE(CheckCheckpoint(config, **checkpoint).ok());
    const std::string gone = tensors.back().name;
    tensors.pop_back();
    dir.Write("model.safetensors", FileOf(tensors));
    checkpoint = Checkpoint::Open(dir.path());
    EXPECT_THAT(std::string(CheckCheckpoint(config, **checkpoint).message()), HasSubstr(gone));
  }
}

// All bytes of a fused matrix are read by some rank; those of split rows by one.
TEST(Partition, RanksShareFusedTensorsAndExperts) {
  for (const json& root : {Qwen1(), ChatGlm3(), Qwen3Moe()}) {
    const ModelConfig config = Must(root);
    for (int ranks : {1, 2, 4}) {
      ASSERT_TRUE(CheckRanks(config, ranks).ok()) << CheckRanks(config, ranks);
      std::map<std::string, int64_t> begin, end;
      for (int rank = 0; rank < ranks; ++rank) {
        for (const ShardTensor& t : ListShardTensors(config, WholeModel(config), ranks, rank)) {
          begin.try_emplace(t.spec.name, t.bytes.begin);
          begin[t.spec.name] = std::min(begin[t.spec.name], t.bytes.begin);
          end[t.spec.name] = std::max(end[t.spec.name], t.bytes.end);
        }
      }
      for (const CheckpointTensor& tensor : ListCheckpointTensors(config)) {
        int64_t bytes = DTypeBytes(config.dtype);
        for (const int64_t size : tensor.shape) bytes *= size;
        EXPECT_EQ(begin[tensor.name], 0) << tensor.name;
        EXPECT_EQ(end[tensor.name], bytes) << tensor.name;
      }
    }
  }
}

struct Real {
  const char* name;
  int64_t hidden, ffn, layers, heads, kv_heads, head_dim, vocab, context;
  double theta;
  bool tied;
};

// The published sizes, and the parameters they make together.
TEST(Family, RealConfigurations) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no real configurations";
  for (const Real& real :
       {Real{"Qwen2-0.5B-Instruct", 896, 4864, 24, 14, 2, 64, 151936, 32768, 1e6, true},
        Real{"Qwen2.5-3B-Instruct", 2048, 11008, 36, 16, 2, 128, 151936, 32768, 1e6, true},
        Real{"Qwen2.5-7B-Instruct", 3584, 18944, 28, 28, 4, 128, 152064, 32768, 1e6, false},
        Real{"Qwen2.5-72B-Instruct", 8192, 29568, 80, 64, 8, 128, 152064, 32768, 1e6, false},
        Real{"Qwen1.5-0.5B-Chat", 1024, 2816, 24, 16, 16, 64, 151936, 32768, 1e6, true},
        Real{"Qwen1.5-72B-Chat", 8192, 24576, 80, 64, 64, 128, 152064, 32768, 1e6, false},
        Real{"Qwen3-30B-A3B", 2048, 768, 48, 32, 4, 128, 151936, 40960, 1e6, false},
        Real{"Qwen3-235B-A22B", 4096, 1536, 94, 64, 4, 128, 151936, 40960, 1e6, false},
        Real{"Qwen-7B-Chat", 4096, 11008, 32, 32, 32, 128, 151936, 32768, 1e4, false},
        Real{"Qwen-1_8B-Chat", 2048, 5504, 24, 16, 16, 128, 151936, 8192, 1e4, false},
        Real{"chatglm3-6b", 4096, 13696, 28, 32, 2, 128, 65024, 8192, 1e4, false},
        Real{"chatglm3-6b-32k", 4096, 13696, 28, 32, 2, 128, 65024, 32768, 5e5, false},
        Real{"chatglm3-6b-128k", 4096, 13696, 28, 32, 2, 128, 65024, 131072, 5e6, false},
        Real{"Llama-3.2-1B", 2048, 8192, 16, 32, 8, 64, 128256, 131072, 5e5, true},
        Real{"Meta-Llama-3.1-8B", 4096, 14336, 32, 32, 8, 128, 128256, 131072, 5e5, false}}) {
    const auto config = LoadModelConfig(TestData() + "/configs/" + real.name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->hidden_size, real.hidden) << real.name;
    EXPECT_EQ(config->has_experts() ? config->expert_intermediate_size : config->intermediate_size,
              real.ffn)
        << real.name;
    EXPECT_EQ(config->num_layers, real.layers) << real.name;
    EXPECT_EQ(config->num_heads, real.heads) << real.name;
    EXPECT_EQ(config->num_kv_heads, real.kv_heads) << real.name;
    EXPECT_EQ(config->head_dim, real.head_dim) << real.name;
    EXPECT_EQ(config->vocab_size, real.vocab) << real.name;
    EXPECT_EQ(config->max_position_embeddings, real.context) << real.name;
    EXPECT_EQ(config->rope.theta, real.theta) << real.name;
    EXPECT_EQ(config->tie_word_embeddings, real.tied) << real.name;
  }
}

int64_t Parameters(const ModelConfig& config) {
  int64_t total = 0;
  for (const CheckpointTensor& tensor : ListCheckpointTensors(config)) {
    int64_t values = 1;
    for (const int64_t size : tensor.shape) values *= size;
    total += values;
  }
  return total;
}

// As the model pages state them (Qwen2.5-7B: 7.61 billion).
TEST(Family, RealParameterCounts) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no real configurations";
  const std::map<std::string, double> billions = {
      {"Qwen2-0.5B-Instruct", 0.494}, {"Qwen2.5-3B-Instruct", 3.09}, {"Qwen2.5-7B-Instruct", 7.62},
      {"Qwen2.5-72B-Instruct", 72.7}, {"Qwen3-30B-A3B", 30.5},       {"Qwen3-235B-A22B", 235},
      {"Qwen-7B-Chat", 7.72},         {"Qwen-1_8B-Chat", 1.84},      {"chatglm3-6b", 6.24},
      {"Llama-3.2-1B", 1.24},         {"Meta-Llama-3.1-8B", 8.03}};
  for (const auto& [name, expected] : billions) {
    const auto config = LoadModelConfig(TestData() + "/configs/" + name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_NEAR(static_cast<double>(Parameters(*config)) / 1e9 / expected, 1, 0.005) << name;
  }
}

TEST(Family, RealConfigurationsAreReadOrRefusedByName) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no real configurations";
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TestData() + "/configs")) {
    const json root = json::parse(ReadWholeFile(entry.path() / "config.json"));
    const std::string architecture = root["architectures"][0];
    const bool quantised = root.contains("quantization_config");
    const auto config = LoadModelConfig(entry.path());
    if (FindFamily(architecture) != nullptr && (!quantised || config.ok())) {
      EXPECT_EQ(config.ok() && !config->quant.empty(), quantised) << config.status();
      ++read;
      continue;
    }
    EXPECT_EQ(config.status().code(), absl::StatusCode::kUnimplemented) << entry.path();
    const std::string named =
        quantised ? root["quantization_config"]["quant_method"].get<std::string>() : architecture;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("\"" + named + "\""));
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("supported: "));
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace tutti::model
