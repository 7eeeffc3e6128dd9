#include "model/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/checkpoint_testing.h"
#include "model/config_json_testing.h"
#include "model/family.h"
#include "model/json_document.h"
#include "model/layer_kinds.h"
#include "model/limits.h"
#include "model/partition.h"

namespace tutti::model {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ModelConfig, ReadsEveryField) {
  json root = ValidRoot();
  root["eos_token_id"] = {7, 9, 7};
  root["tie_word_embeddings"] = true;
  root["rope_theta"] = 1e6;
  const auto config = ParseRoot(root);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(config->model_type, "qwen3");
  EXPECT_EQ(config->hidden_size, 24);
  EXPECT_EQ(config->intermediate_size, 40);
  EXPECT_EQ(config->num_layers, 3);
  EXPECT_EQ(config->num_heads, 4);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->head_dim, 8);
  EXPECT_EQ(config->vocab_size, 200);
  EXPECT_EQ(config->max_position_embeddings, 64);
  EXPECT_EQ(config->rms_norm_eps, 1e-6f);
  EXPECT_EQ(config->rope.theta, 1e6);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_TRUE(config->qk_norm);
  EXPECT_FALSE(config->attention_bias);
  EXPECT_EQ(config->dtype, DType::kBF16);
  EXPECT_THAT(config->eos_token_ids, testing::ElementsAre(7, 9));
  EXPECT_EQ(config->q_width(), 32);
  EXPECT_EQ(config->kv_width(), 16);
  EXPECT_EQ(config->kv_bytes_per_token(3), 2 * 3 * 16 * 2);
  EXPECT_EQ(config->kv_bytes_per_token(1, DType::kF32), 2 * 16 * 4);
}

TEST(ModelConfig, NamesEachMissingField) {
  for (const char* name : {"architectures", "hidden_act", "hidden_size", "intermediate_size",
                           "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                           "vocab_size", "max_position_embeddings", "rms_norm_eps"}) {
    json root = ValidRoot();
    root.erase(name);
    ExpectRootInvalid(root, std::string(name) + " is missing");
    root[name] = nullptr;
    ExpectRootInvalid(root, std::string(name) + " is missing");
  }
}

TEST(ModelConfig, NamesEachWrongTypeAndLimit) {
  struct Size {
    const char* name;
    int64_t most;
  };
  for (const Size& size :
       {Size{"hidden_size", kHiddenSizeMax}, Size{"intermediate_size", kIntermediateSizeMax},
        Size{"num_hidden_layers", kNumLayersMax}, Size{"num_attention_heads", kNumHeadsMax},
        Size{"num_key_value_heads", kNumHeadsMax}, Size{"head_dim", kHeadDimMax},
        Size{"vocab_size", kVocabSizeMax}, Size{"max_position_embeddings", kContextMax}}) {
    for (const json& value :
         {json("24"), json(true), json::array({24}), json(24.0), json(24.5), json::object()}) {
      json root = ValidRoot();
      root[size.name] = value;
      ExpectRootInvalid(root, std::string(size.name) + " must be an integer");
    }
    for (const json& value : {json(0), json(-1), json(size.most + 1), json(INT64_MAX),
                              json(INT64_MIN), json(UINT64_MAX)}) {
      json root = ValidRoot();
      root[size.name] = value;
      ExpectRootInvalid(root, std::string(size.name) + " is " + value.dump());
    }
  }
  for (const char* name : {"rms_norm_eps", "rope_theta"}) {
    for (const json& value : {json("1"), json(0), json(-1), json(1e300)}) {
      json root = ValidRoot();
      root[name] = value;
      ExpectRootInvalid(root, name);
    }
  }
  json root = ValidRoot();
  root["tie_word_embeddings"] = "yes";
  ExpectRootInvalid(root, "tie_word_embeddings must be true or false");
}

TEST(ModelConfig, ChecksHowFieldsFitTogether) {
  json root = ValidRoot();
  root["num_key_value_heads"] = 3;
  ExpectRootInvalid(root, "num_key_value_heads 3 does not divide num_attention_heads 4");
  root = ValidRoot();
  root["head_dim"] = 7;
  ExpectRootInvalid(root, "head_dim 7 is odd");
  root = ValidRoot();
  root["eos_token_id"] = 200;
  ExpectRootInvalid(root, "eos_token_id holds 200");
  root["eos_token_id"] = json::array({1, "x"});
  ExpectRootInvalid(root, "eos_token_id");
  root["eos_token_id"] = std::vector<int>(kEosTokensMax + 1, 1);
  ExpectRootInvalid(root, "eos_token_id has 65 entries");
  root = ValidRoot();
  root["model_type"] = "llama";
  ExpectRootInvalid(root, "model_type is \"llama\"");
}

// The fields that transformers 5 renamed.
TEST(ModelConfig, AcceptsBothSpellings) {
  json root = ValidRoot();
  root.erase("torch_dtype");
  root["dtype"] = "float16";
  root.erase("rope_theta");
  root["rope_parameters"] = {{"rope_theta", 5e6}, {"rope_type", "default"}};
  root["layer_types"] = std::vector<std::string>(3, "full_attention");
  auto config = ParseRoot(root);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->dtype, DType::kF16);
  EXPECT_EQ(config->rope.theta, 5e6);

  root["rope_theta"] = 5e6;
  root["torch_dtype"] = "float16";
  EXPECT_TRUE(ParseRoot(root).ok()) << ParseRoot(root).status();
  root["rope_theta"] = 1e6;
  ExpectRootInvalid(root, "rope_theta and rope_parameters.rope_theta differ");
  root["rope_theta"] = 5e6;
  root["torch_dtype"] = "float32";
  ExpectRootInvalid(root, "dtype and torch_dtype differ");
  root.erase("rope_theta");
  root["rope_parameters"].erase("rope_theta");
  root.erase("torch_dtype");
  root.erase("head_dim");
  config = ParseRoot(root);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope.theta, 10000) << "as transformers has it";
  EXPECT_EQ(config->head_dim, 128) << "of Qwen3, as transformers has it";
  root["rope_parameters"] = 3;
  ExpectRootInvalid(root, "rope_parameters must be an object");
}

TEST(ModelConfig, RefusesByNameWhatItDoesNotRun) {
  const auto with = [](const char* name, json value) {
    json root = ValidRoot();
    root[name] = std::move(value);
    return root;
  };
  ExpectRootUnsupported(with("architectures", {"MambaForCausalLM"}),
                        "architecture \"MambaForCausalLM\" is not supported; supported: "
                        "Qwen3ForCausalLM");
  ExpectRootUnsupported(with("hidden_act", "gelu"), "hidden_act \"gelu\"");
  ExpectRootUnsupported(with("torch_dtype", "float64"), "torch_dtype \"float64\"");
  ExpectRootUnsupported(with("quantization_config", {{"quant_method", "bitsandbytes"}}),
                        "\"bitsandbytes\" is not supported; supported: GPTQ");
  ExpectRootUnsupported(with("quantization_config", json::object()), "quantization_config");
  ExpectRootUnsupported(with("rope_scaling", {{"type", "su"}}), "rope_scaling: rope_type \"su\"");
  ExpectRootUnsupported(
      with("rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "longrope"}}),
      "\"longrope\" is not supported; supported: default, dynamic, linear, llama3, yarn");
  ExpectRootUnsupported(with("partial_rotary_factor", 0.5), "partial_rotary_factor");
  ExpectRootUnsupported(with("rope_parameters", {{"rope_type", "default"}, {"section", {1, 2}}}),
                        "rope_parameters: section is not supported");
  ExpectRootUnsupported(with("layer_types", {"full_attention", "linear_attention"}),
                        "\"linear_attention\"");
}

TEST(ModelConfig, BiasesAreSwitchedOn) {
  json root = ValidRoot();
  const auto tensors = [&] {
    const auto config = ParseRoot(root);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? ListCheckpointTensors(*config).size() : 0;
  };
  const size_t without = tensors();
  root["attention_bias"] = true;
  EXPECT_EQ(tensors(), without + 3 * 4) << "of queries, keys, values and the output";
  root["mlp_bias"] = true;
  EXPECT_EQ(tensors(), without + 3 * 4) << "Qwen3 has none";
  root["architectures"] = {"LlamaForCausalLM"};
  root["model_type"] = "llama";
  EXPECT_EQ(tensors(), without + 3 * (4 + 3 - 2)) << "and no norms of heads";
}

TEST(ModelConfig, SomeLayersAreDense) {
  using Layers = std::vector<int32_t>;
  json root = ValidRoot();
  root["architectures"] = {"Qwen3MoeForCausalLM"};
  root["model_type"] = "qwen3_moe";
  root["num_experts"] = 6;
  root["num_experts_per_tok"] = 2;
  root["moe_intermediate_size"] = 24;
  const auto must = [&] {
    const auto config = ParseRoot(root);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : ModelConfig();
  };
  root["num_hidden_layers"] = 5;
  root["decoder_sparse_step"] = 2;
  EXPECT_EQ(must().dense_layers, (Layers{0, 2, 4}));
  root["mlp_only_layers"] = {3, 9};
  const ModelConfig config = must();
  EXPECT_EQ(config.dense_layers, (Layers{0, 2, 3, 4}));
  EXPECT_TRUE(config.has_experts() && config.has_dense_mlp() && config.has_experts(1));
  EXPECT_EQ(KindsOfLayers(config), (std::vector<int64_t>{0, 1}));
  for (const CheckpointTensor& tensor : ListCheckpointTensors(config)) {
    const bool of_mixture = tensor.name.find("layers.1.") != std::string::npos;
    if (tensor.role != Role::kGate && tensor.role != Role::kRouter) continue;
    EXPECT_EQ(of_mixture, tensor.role == Role::kRouter) << tensor.name;
  }
  const RankWidths widths = WidthsOfRank(config, 1, 0);
  EXPECT_EQ(widths.intermediate, config.intermediate_size);
  EXPECT_EQ(widths.expert, config.expert_intermediate_size);
  root["mlp_only_layers"] = {1, 3};
  EXPECT_FALSE(must().has_experts());
  EXPECT_TRUE(must().dense_layers.empty()) << "nothing is left of the mixture";
  root["mlp_only_layers"] = {-1};
  ExpectRootInvalid(root, "mlp_only_layers holds -1");
}

TEST(ModelConfig, WithoutADTypeAsksTheCheckpoint) {
  json root = ValidRoot();
  root.erase("torch_dtype");
  ExpectRootInvalid(root, "dtype is missing, and there is no checkpoint beside it");
  TempDir dir;
  dir.Write("config.json", root.dump());
  EXPECT_EQ(LoadModelConfig(dir.path()).status().code(), absl::StatusCode::kNotFound);
  const auto write = [&](std::initializer_list<StoredType> types) {
    std::vector<TensorInfo> tensors;
    for (const StoredType type : types) {
      tensors.push_back(TensorOf(absl::StrCat("t", tensors.size()), type, {2}));
    }
    dir.Write("model.safetensors", FileOf(tensors));
  };
  write({StoredType::kI64, StoredType::kF16, StoredType::kBF16});
  auto config = LoadModelConfig(dir.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->dtype, DType::kF16) << "of the first tensor that is not whole numbers";
  write({StoredType::kI64});
  EXPECT_THAT(std::string(LoadModelConfig(dir.path()).status().message()),
              HasSubstr("no tensor is BF16, F16 or F32"));
}

// Python's json writes them.
TEST(ModelConfig, NumbersThatAreNoneAreAbsent) {
  std::string text = ValidRoot().dump();
  text.insert(text.size() - 1, R"(, "a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" NaN")");
  EXPECT_TRUE(ParseModelConfig(text, "config.json").ok());
  const auto read = ParseJson(R"({"a": NaN, "b": [-Infinity], "c": "NaN \" NaN"})", "x", 1000);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dump(), R"({"a":null,"b":[null],"c":"NaN \" NaN"})");
  json root = ValidRoot();
  root["hidden_size"] = "HERE";
  text = root.dump();
  text.replace(text.find("\"HERE\""), 6, "NaN");
  EXPECT_THAT(std::string(ParseModelConfig(text, "config.json").status().message()),
              HasSubstr("hidden_size is missing"));
}

TEST(ModelConfig, RefusesWhatIsNotAConfiguration) {
  for (const char* text : {"", "{", "[]", "3", "null", "{\"a\": }", "\xff\xfe", "{} x",
                           "{\"hidden_size\": 1e999}", "{\"architectures\": \"Qwen3ForCausalLM\"}",
                           "{\"architectures\": []}", "{\"architectures\": [1]}"}) {
    const auto config = ParseModelConfig(text, "somewhere/config.json");
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr("somewhere/config.json"));
  }
  EXPECT_EQ(ParseModelConfig(std::string(kConfigBytesMax + 1, ' '), "f").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ModelConfig, EveryPrefixIsRefused) {
  const std::string text = ConfigText(TinyConfig());
  ASSERT_TRUE(ParseModelConfig(text, "f").ok());
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_FALSE(ParseModelConfig(std::string_view(text).substr(0, n), "f").ok()) << n;
  }
}

TEST(JsonDocument, RefusesDepthAndDuplicates) {
  EXPECT_THAT(std::string(ParseJson(R"({"a": {"b": 1, "b": 2}})", "f", 100).status().message()),
              HasSubstr("key \"b\" twice"));
  EXPECT_TRUE(ParseJson(R"({"a": {"b": 1}, "b": [{"b": 1}, {"b": 1}]})", "f", 100).ok());
  const std::string deep(1'000'000, '[');
  EXPECT_THAT(std::string(ParseJson(deep, "f", 1 << 20).status().message()), HasSubstr("deeper"));
  const std::string most = std::string(kJsonDepthMax, '[') + std::string(kJsonDepthMax, ']');
  EXPECT_TRUE(ParseJson(most, "f", 1000).ok());
  EXPECT_FALSE(ParseJson("[" + most + "]", "f", 1000).ok());
}

TEST(JsonDocument, BuildsTheSameDocumentAsTheLibrary) {
  const std::string text = R"([1, -2, 3.5, "x\u00e9", true, false, null, [], )"
                           R"({}, {"a": [{"b": [[1], 2]}], "c": {}}, 18446744073709551615])";
  EXPECT_EQ(*ParseJson(text, "f", 1000), json::parse(text));
}

TEST(JsonDocument, QuotesOnlyWholeCharacters) {
  EXPECT_EQ(Quoted("a\nb"), "\"a?b\"");
  std::string text(99, 'x');
  text += "\xc3\xa9tail";
  EXPECT_EQ(Quoted(text), "\"" + std::string(99, 'x') + "...\"");
}

TEST(ModelConfig, RealConfigurations) {
  if (TestData().empty()) GTEST_SKIP() << "TUTTI_TESTDATA is not set: no real configurations";
  struct Row {
    const char* name;
    int64_t hidden, ffn, layers, heads, kv_heads;
    bool tied;
  };
  // The published sizes.
  for (const Row& row : {Row{"Qwen3-0.6B", 1024, 3072, 28, 16, 8, true},
                         Row{"Qwen3-1.7B", 2048, 6144, 28, 16, 8, true},
                         Row{"Qwen3-4B", 2560, 9728, 36, 32, 8, true},
                         Row{"Qwen3-8B", 4096, 12288, 36, 32, 8, false},
                         Row{"Qwen3-32B", 5120, 25600, 64, 64, 8, false}}) {
    const auto config = LoadModelConfig(TestData() + "/configs/" + row.name);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->hidden_size, row.hidden) << row.name;
    EXPECT_EQ(config->intermediate_size, row.ffn) << row.name;
    EXPECT_EQ(config->num_layers, row.layers) << row.name;
    EXPECT_EQ(config->num_heads, row.heads) << row.name;
    EXPECT_EQ(config->num_kv_heads, row.kv_heads) << row.name;
    EXPECT_EQ(config->head_dim, 128) << row.name;
    EXPECT_EQ(config->vocab_size, 151936) << row.name;
    EXPECT_EQ(config->rope.theta, 1e6) << row.name;
    EXPECT_EQ(config->max_position_embeddings, 40960) << row.name;
    EXPECT_EQ(config->tie_word_embeddings, row.tied) << row.name;
    EXPECT_EQ(config->dtype, DType::kBF16) << row.name;
    EXPECT_THAT(config->eos_token_ids, testing::ElementsAre(151645)) << row.name;
  }
}

// Text that comes behind a zero byte would be ignored.
TEST(ModelConfig, AZeroByteIsNoEnd) {
  const std::string text = ValidRoot().dump() + std::string("\0", 1) + "{";
  EXPECT_THAT(std::string(ParseModelConfig(text, "config.json").status().message()),
              testing::HasSubstr("which is zero"));
}

TEST(ModelConfig, AMissingFileIsNotFound) {
  TempDir dir;
  const auto config = LoadModelConfig(dir.path());
  EXPECT_EQ(config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("config.json"));
}

}  // namespace
}  // namespace tutti::model
