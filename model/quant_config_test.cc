#include "model/quant_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::model {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<QuantConfig> MustAll(const std::string& text) {
  const auto configs = ParseQuantConfigs(json::parse(text), "config.json: quantization_config");
  EXPECT_TRUE(configs.ok()) << configs.status();
  return configs.value_or(std::vector<QuantConfig>(1));
}

QuantConfig Must(const std::string& text) {
  EXPECT_EQ(MustAll(text).size(), 1u) << text;
  return MustAll(text).front();
}

std::string Said(const std::string& text) {
  const auto config = ParseQuantConfigs(json::parse(text), "config.json: quantization_config");
  EXPECT_FALSE(config.ok()) << text;
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("config.json"));
  return std::string(config.status().message());
}

TEST(QuantConfigTest, WhatIsPublished) {
  const QuantConfig gptq = Must(R"({"quant_method": "gptq", "bits": 8, "group_size": -1,
      "desc_act": false, "sym": true, "checkpoint_format": "gptq"})");
  EXPECT_EQ(gptq.bits, 8);
  EXPECT_EQ(gptq.group_size, -1);
  EXPECT_TRUE(gptq.zeros_less_one);
  EXPECT_FALSE(Must(R"({"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": false,
      "checkpoint_format": "gptq_v2"})")
                   .zeros_less_one);
  // quantize_config.json of older files names no method.
  EXPECT_EQ(Must(R"({"bits": 4, "group_size": 128, "desc_act": true})").method, Method::kGptq);

  const QuantConfig awq = Must(R"({"quant_method": "awq", "version": "GEMM", "bits": 4,
      "group_size": 128, "zero_point": true, "modules_to_not_convert": null})");
  EXPECT_FALSE(awq.symmetric);
  EXPECT_TRUE(Must(R"({"quant_method": "awq", "bits": 4, "zero_point": false})").has_zeros())
      << "its files have them all the same";
  EXPECT_EQ(Must(R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 64})").group_size, 64);

  const QuantConfig fp8 = Must(R"({"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 64]})");
  EXPECT_EQ(fp8.block_rows, 128);
  EXPECT_EQ(fp8.block_columns, 64);

  const QuantConfig packed = Must(R"({"quant_method": "compressed-tensors",
      "format": "pack-quantized", "ignore": ["lm_head"], "config_groups": {"group_0": {"targets":
      ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "group",
      "group_size": 32, "symmetric": false}}}})");
  EXPECT_EQ(packed.packed, PackedFormat::kPacked);
  EXPECT_EQ(packed.group_size, 32);
  EXPECT_FALSE(packed.symmetric);
  EXPECT_EQ(Must(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})").packed,
            PackedFormat::kNvfp4);
  const QuantConfig nvfp4 = Must(R"({"quant_method": "compressed-tensors",
      "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
      "input_activations": {"num_bits": 4, "type": "float", "strategy": "tensor_group",
      "group_size": 16, "dynamic": "local"}, "weights": {"num_bits": 4, "type": "float",
      "strategy": "tensor_group", "group_size": 16, "symmetric": true}}}})");
  EXPECT_EQ(nvfp4.kind(), kernels::CodeKind::kNvfp4);
  EXPECT_EQ(nvfp4.scale_type, DType::kF32) << "of the whole";
  EXPECT_FALSE(nvfp4.quantises_activations) << "weights alone";
}

TEST(QuantConfigTest, ActivationsThatAreIntegers) {
  json config = {
      {"quant_method", "compressed-tensors"},
      {"format", "int-quantized"},
      {"config_groups", {{"group_0", {{"weights", {{"num_bits", 8}, {"strategy", "channel"}}}}}}}};
  EXPECT_FALSE(Must(config.dump()).quantises_activations);
  json& activations = config["config_groups"]["group_0"]["input_activations"];
  activations = {{"num_bits", 8},
                 {"type", "int"},
                 {"symmetric", true},
                 {"dynamic", true},
                 {"strategy", "token"}};
  EXPECT_TRUE(Must(config.dump()).quantises_activations);
  const std::pair<const char*, json> others[] = {{"num_bits", 4},        {"type", "float"},
                                                 {"symmetric", false},   {"dynamic", false},
                                                 {"strategy", "tensor"}, {"dynamic", "local"}};
  for (const auto& [field, value] : others) {
    const json before = activations;
    activations[field] = value;
    EXPECT_THAT(Said(config.dump()), HasSubstr("input_activations")) << field << " " << value;
    activations = before;
  }
}

TEST(QuantConfigTest, SeveralFormatsEachOnce) {
  const auto gptq = MustAll(R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true,
      "desc_act": true, "dynamic": {"-:.*0.*": {}, "+:.*down.*": {"bits": 8, "group_size": 64},
      ".*v_proj.*": {"bits": 8, "group_size": 64, "damp_percent": 0.1}, ".*o_proj.*": {}}})");
  ASSERT_EQ(gptq.size(), 2u);
  EXPECT_EQ(gptq[0].bits, 4);
  EXPECT_EQ(gptq[1].bits, 8);
  EXPECT_EQ(gptq[1].group_size, 64);
  EXPECT_TRUE(gptq[1].any_order) << "the rest is as for all";

  const auto groups = MustAll(R"({"quant_method": "compressed-tensors", "format": "mixed-precision",
      "config_groups": {"group_0": {"format": "float-quantized", "targets": ["re:.*self_attn.*"],
      "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}, "group_1": {"format":
      "pack-quantized", "targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "strategy": "group",
      "group_size": 32}}}})");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind(), kernels::CodeKind::kE4m3);
  EXPECT_EQ(groups[1].kind(), kernels::CodeKind::kInt4);
  // Before groups had formats of their own, one was of all.
  EXPECT_EQ(MustAll(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "config_groups": {"a": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 32}},
      "b": {"weights": {"num_bits": 8, "strategy": "channel"}}}})")
                .size(),
            2u);

  const auto mixed = MustAll(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
      "quantized_layers": {"model.layers.0.mlp.down_proj": {"quant_algo": "FP8"},
      "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
      "model.layers.1.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16}}})");
  ASSERT_EQ(mixed.size(), 2u);
}

TEST(QuantConfigTest, OthersAreRefusedByName) {
  EXPECT_THAT(Said(R"({"quant_method": "bitsandbytes"})"), HasSubstr("\"bitsandbytes\""));
  EXPECT_THAT(Said("{}"), HasSubstr("not named"));
  EXPECT_THAT(Said(R"({"quant_method": "gptq", "bits": 3})"), HasSubstr("bits 3 of GPTQ"));
  EXPECT_THAT(Said(R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})"),
              HasSubstr("\"marlin\""));
  EXPECT_THAT(Said(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*": {"bits": 3}}})"),
              HasSubstr("dynamic \"+:.*\": bits 3 of GPTQ"));
  EXPECT_THAT(Said(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*": 3}})"),
              HasSubstr("is no object"));
  EXPECT_THAT(Said(R"({"quant_method": "gptq", "bits": 4, "group_size": 0})"),
              HasSubstr("group_size is 0"));
  EXPECT_THAT(Said(R"({"quant_method": "awq", "version": "gemv"})"), HasSubstr("\"gemv\""));
  EXPECT_THAT(Said(R"({"quant_method": "fp8", "fmt": "e5m2"})"), HasSubstr("\"e5m2\""));
  for (const char* block : {"[128]", "3", "[0, 128]", "[128, \"a\"]"}) {
    EXPECT_THAT(Said(std::string(R"({"quant_method": "fp8", "weight_block_size": )") + block + "}"),
                HasSubstr("weight_block_size"));
  }
  EXPECT_THAT(Said(R"({"quant_method": "compressed-tensors", "format": "marlin-24"})"),
              HasSubstr("\"marlin-24\""));
  EXPECT_THAT(Said(R"({"quant_method": "compressed-tensors", "format": "int-quantized"})"),
              HasSubstr("config_groups is missing"));
  EXPECT_THAT(Said(R"({"quant_method": "compressed-tensors", "format": "int-quantized",
      "config_groups": {"a": {}, "b": {}}})"),
              HasSubstr("config_groups \"a\": weights is missing"));
  EXPECT_THAT(Said(R"({"quant_method": "compressed-tensors", "format": "mixed-precision",
      "config_groups": {"a": {"weights": {"num_bits": 8, "strategy": "channel"}}}})"),
              HasSubstr("config_groups \"a\": format \"mixed-precision\""));
  EXPECT_THAT(Said(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})"),
              HasSubstr("quantized_layers is missing"));
  EXPECT_THAT(Said(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
      "quantized_layers": {"a": {"quant_algo": "W4A8_AWQ"}}})"),
              HasSubstr("quantized_layers \"a\": quant_algo \"W4A8_AWQ\""));
  std::string groups;
  for (int size = 1; size <= 17; ++size) {
    groups += std::string(size > 1 ? ", " : "") + "\"+:" + std::to_string(size) +
              "\": {\"group_size\": " + std::to_string(size) + "}";
  }
  EXPECT_THAT(Said(R"({"quant_method": "gptq", "bits": 4, "dynamic": {)" + groups + "}}"),
              HasSubstr("has more than 16 formats"));
  EXPECT_THAT(Said(R"({"quant_method": "modelopt", "quant_algo": "W4A8"})"), HasSubstr("\"W4A8\""));
}

// As many patterns and groups as a file of a few megabytes has: time grows with them, and not with
// their square.
TEST(QuantConfigTest, ManyPatternsAreReadInTime) {
  json gptq = {{"quant_method", "gptq"}, {"bits", 4}};
  json groups = {{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}};
  for (int i = 0; i < 100'000; ++i) {
    gptq["dynamic"]["+:" + std::to_string(i)] = json::object();
    if (i % 2 == 0) continue;
    groups["config_groups"][std::to_string(i)] = {
        {"weights", {{"num_bits", 4}, {"strategy", "group"}, {"group_size", i}}}};
  }
  const auto one = ParseQuantConfigs(gptq, "config.json");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->size(), 1u);
  EXPECT_THAT(std::string(ParseQuantConfigs(groups, "config.json").status().message()),
              HasSubstr("has more than 16 formats"));
}

// What one group of compressed-tensors says of its weights.
std::string SaidOfWeights(const std::string& format, const json& weights) {
  const json config = {{"quant_method", "compressed-tensors"},
                       {"format", format},
                       {"config_groups", {{"group_0", {{"weights", weights}}}}}};
  return Said(config.dump());
}

TEST(QuantConfigTest, GroupsThatTheFormatHasNotAreRefused) {
  const json block = {
      {"num_bits", 8}, {"strategy", "block"}, {"block_structure", {INT64_MAX, INT64_MAX}}};
  EXPECT_THAT(SaidOfWeights("float-quantized", block), HasSubstr("block_structure must be two"));
  const json group = {{"num_bits", 8}, {"strategy", "group"}, {"group_size", 128}};
  for (const char* format : {"float-quantized", "int-quantized"}) {
    EXPECT_THAT(SaidOfWeights(format, group), HasSubstr("group_size 128 of"));
  }
  const json four = {{"num_bits", 4}, {"strategy", "group"}, {"group_size", 64}};
  EXPECT_THAT(SaidOfWeights("mxfp4-pack-quantized", four), HasSubstr("supported: 32"));
  EXPECT_THAT(SaidOfWeights("nvfp4-pack-quantized", four), HasSubstr("supported: 16"));
  const json moved = {{"num_bits", 8}, {"strategy", "channel"}, {"symmetric", false}};
  EXPECT_THAT(SaidOfWeights("int-quantized", moved), HasSubstr("symmetric false"));
}

}  // namespace
}  // namespace tutti::model
