#include "worker/quantised_formats_testing.h"

namespace tutti::worker {

using nlohmann::json;

namespace {

json GptqV2(int group) {
  return {{"quant_method", "gptq"}, {"bits", 4},        {"group_size", group},
          {"sym", false},           {"desc_act", true}, {"checkpoint_format", "gptq_v2"}};
}

json Awq(int group) {
  return {{"quant_method", "awq"},
          {"version", "gemm"},
          {"bits", 4},
          {"group_size", group},
          {"zero_point", true}};
}

json Compressed(const char* format, int bits, const json& weights) {
  json all = weights;
  all["num_bits"] = bits;
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", all}}}}}};
}

}  // namespace

json GptqConfig(int bits, int group, bool any_order) {
  return {{"quant_method", "gptq"}, {"bits", bits},
          {"group_size", group},    {"sym", true},
          {"desc_act", any_order},  {"checkpoint_format", "gptq"}};
}

json Fp8(int block) {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {block, block}}};
}

json Packed(int bits, int group, bool symmetric) {
  return Compressed("pack-quantized", bits,
                    {{"strategy", "group"}, {"group_size", group}, {"symmetric", symmetric}});
}

json Nvfp4() {
  return Compressed("nvfp4-pack-quantized", 4,
                    {{"strategy", "tensor_group"}, {"group_size", 16}, {"type", "float"}});
}

json Integers(bool activations) {
  json all = Compressed("int-quantized", 8, {{"strategy", "channel"}});
  if (activations) {
    all["config_groups"]["group_0"]["input_activations"] = {{"num_bits", 8},
                                                            {"type", "int"},
                                                            {"symmetric", true},
                                                            {"dynamic", true},
                                                            {"strategy", "token"}};
  }
  return all;
}

std::map<std::string, json> QuantisedFormats() {
  return {
      {"gptq4", GptqConfig(4, 32)},
      {"gptq8", GptqConfig(8, -1)},
      {"gptq4_any_order", GptqConfig(4, 32, true)},
      {"gptq4_v2_asymmetric", GptqV2(16)},
      {"awq", Awq(32)},
      {"fp8_blocks", Fp8(48)},
      {"fp8_rows", Compressed("float-quantized", 8, {{"strategy", "channel"}})},
      {"packed4", Packed(4, 32, false)},
      {"packed8", Packed(8, 16, true)},
      {"mxfp4", Compressed("mxfp4-pack-quantized", 4, {{"strategy", "group"}, {"group_size", 32}})},
      {"nvfp4", Nvfp4()},
      {"int8", Integers(false)},
      {"nvfp4_modelopt", {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}}};
}

}  // namespace tutti::worker
