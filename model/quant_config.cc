#include "model/quant_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "model/config_fields.h"
#include "model/json_document.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

constexpr int64_t kGroupSizeMax = 1 << 20;
// What compressed-tensors calls the format of groups that have formats of their own.
constexpr std::string_view kMixed = "mixed-precision";
constexpr char kInstead[] =
    "; supported: GPTQ and AWQ of 4 bits (GPTQ of 8), FP8, compressed-tensors, MXFP4, NVFP4";

void ReadGroup(ConfigFields& fields, const char* name, QuantConfig* config) {
  config->group_size = fields.IntOr(name, -1, kGroupSizeMax, 128);
  if (config->group_size == 0) fields.Invalid(absl::StrCat(name, " is 0"));
}

void ReadGptq(ConfigFields& fields, QuantConfig* config) {
  config->method = Method::kGptq;
  config->bits = static_cast<int>(fields.Int("bits", 1, 16));
  if (config->bits != 4 && config->bits != 8) {
    fields.Unsupported(absl::StrCat("bits ", config->bits, " of GPTQ are not supported", kInstead));
  }
  ReadGroup(fields, "group_size", config);
  config->symmetric = fields.BoolOr("sym", true);
  const std::string format = fields.TextOr("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2") {
    fields.Unsupported(
        absl::StrCat("checkpoint_format ", Quoted(format), " is not supported", kInstead));
  }
  config->zeros_less_one = format == "gptq";
  config->any_order = fields.BoolOr("desc_act", false) && config->group_size != -1;
}

// What GPTQModel has for modules by patterns of their names: "-:" before one leaves modules as they
// were, which their tensors tell, and the others have fields of their own.
void ReadDynamic(ConfigFields& fields, std::vector<QuantConfig>* read) {
  const nlohmann::json* dynamic = fields.Object("dynamic");
  if (dynamic == nullptr || !fields.status().ok()) return;
  for (const auto& [pattern, overrides] : dynamic->items()) {
    if (pattern.starts_with("-:")) continue;
    const std::string path = absl::StrCat(fields.prefix(), ".dynamic ", Quoted(pattern));
    if (!overrides.is_object()) return fields.Invalid(absl::StrCat(path, " is no object"));
    // What ReadGptq reads, and no more: a hostile file has as many patterns as other fields.
    nlohmann::json merged = nlohmann::json::object();
    for (const char* name : {"bits", "group_size", "sym", "checkpoint_format", "desc_act"}) {
      const nlohmann::json& from = overrides.contains(name) ? overrides : fields.object();
      if (from.contains(name)) merged[name] = from[name];
    }
    ConfigFields of(merged, path);
    ReadGptq(of, &read->emplace_back());
    fields.Adopt(of.status());
  }
}

void ReadAwq(ConfigFields& fields, QuantConfig* config) {
  config->method = Method::kAwq;
  config->bits = static_cast<int>(fields.IntOr("bits", 1, 16, fields.IntOr("w_bit", 1, 16, 4)));
  if (config->bits != 4) {
    fields.Unsupported(absl::StrCat("bits ", config->bits, " of AWQ are not supported", kInstead));
  }
  ReadGroup(fields, fields.Has("q_group_size") ? "q_group_size" : "group_size", config);
  config->symmetric = !fields.BoolOr("zero_point", true);
  const std::string version = absl::AsciiStrToLower(fields.TextOr("version", "gemm"));
  if (version != "gemm") {
    fields.Unsupported(
        absl::StrCat("version ", Quoted(version), " of AWQ is not supported; supported: gemm"));
  }
}

// Blocks of rows and columns; false: it says none.
bool ReadBlock(const nlohmann::json& pair, QuantConfig* config) {
  if (!pair.is_array() || pair.size() != 2) return false;
  for (const nlohmann::json& side : pair) {
    if (!side.is_number_integer() || side < 1 || side > kGroupSizeMax) return false;
  }
  config->block_rows = pair[0].get<int64_t>();
  config->block_columns = pair[1].get<int64_t>();
  return true;
}

std::string NoBlock(const char* name) {
  return absl::StrCat(name, " must be two numbers of rows and columns, each from 1 to ",
                      kGroupSizeMax);
}

void ReadFp8(ConfigFields& fields, QuantConfig* config) {
  config->method = Method::kFp8;
  config->bits = 8;
  config->group_size = -1;
  config->scale_type = DType::kBF16;
  if (const std::string format = fields.TextOr("fmt", "e4m3"); format != "e4m3") {
    fields.Unsupported(absl::StrCat("fmt ", Quoted(format), " is not supported; supported: e4m3"));
  }
  const auto& object = fields.object();
  const auto block = object.find("weight_block_size");
  if (block == object.end() || block->is_null()) return;
  if (!ReadBlock(*block, config)) {
    fields.Invalid(NoBlock("weight_block_size"));
  }
}

// Those of int-quantized checkpoints: of each token an integer of 8 bits, by a scale found then.
void ReadActivations(ConfigFields& group, QuantConfig* config) {
  const nlohmann::json* const activations = group.Object("input_activations");
  if (activations == nullptr) return;
  config->quantises_activations = true;
  ConfigFields of(*activations, absl::StrCat(group.prefix(), ".input_activations"));
  const bool supported = of.IntOr("num_bits", 1, 16, 8) == 8 && of.TextOr("type", "int") == "int" &&
                         of.BoolOr("symmetric", true) && of.BoolOr("dynamic", false) &&
                         of.TextOr("strategy", "token") == "token";
  if (!supported) {
    of.Unsupported("supported: activations of 8 bits, int, symmetric, dynamic, strategy token");
  }
  group.Adopt(of.status());
}

void ReadWeightsOfGroup(ConfigFields& group, QuantConfig* config) {
  const nlohmann::json* weights = group.Object("weights");
  if (weights == nullptr) return group.Invalid("weights is missing");
  ConfigFields of_weights(*weights, absl::StrCat(group.prefix(), ".weights"));
  config->bits = static_cast<int>(of_weights.Int("num_bits", 1, 16));
  config->symmetric = of_weights.BoolOr("symmetric", true);
  // Of old files also a bool.
  if (const auto order = weights->find("actorder"); order != weights->end()) {
    config->any_order = *order == "group" || *order == true;
  }
  if (config->packed == PackedFormat::kInt) ReadActivations(group, config);
  const std::string strategy = of_weights.TextOr("strategy", "");
  if (strategy == "group" || strategy == "tensor_group") {
    config->group_size = of_weights.Int("group_size", 1, kGroupSizeMax);
  } else if (strategy == "channel" || strategy == "tensor" || strategy == "block") {
    config->group_size = -1;
  } else {
    of_weights.Unsupported(absl::StrCat("strategy ", Quoted(strategy), " is not supported"));
  }
  if (strategy == "block") {
    const auto block = weights->find("block_structure");
    if (block == weights->end() || !ReadBlock(*block, config)) {
      of_weights.Invalid(NoBlock("block_structure"));
    }
  }
  group.Adopt(of_weights.status());
}

// kNone: one that is not read.
PackedFormat PackedFormatOf(std::string_view format) {
  constexpr std::pair<std::string_view, PackedFormat> kFormats[] = {
      {"float-quantized", PackedFormat::kFloat},
      {"int-quantized", PackedFormat::kInt},
      {"pack-quantized", PackedFormat::kPacked},
      {"mxfp4-pack-quantized", PackedFormat::kMxfp4},
      {"nvfp4-pack-quantized", PackedFormat::kNvfp4}};
  for (const auto& [name, packed] : kFormats) {
    if (name == format) return packed;
  }
  return PackedFormat::kNone;
}

// One of config_groups, stored as `format` says.
void ReadGroupOfLayers(ConfigFields& group, const std::string& format, QuantConfig* config) {
  config->method = Method::kCompressedTensors;
  config->packed = PackedFormatOf(format);
  if (config->packed == PackedFormat::kNone) {
    group.Unsupported(absl::StrCat("format ", Quoted(format), " is not supported", kInstead));
  }
  const bool nvfp4 = config->packed == PackedFormat::kNvfp4;
  config->scale_type = nvfp4 ? DType::kF32 : DType::kBF16;
  ReadWeightsOfGroup(group, config);
  const bool packed = config->packed == PackedFormat::kPacked;
  const bool fp4 = config->packed == PackedFormat::kMxfp4 || nvfp4;
  if (group.status().ok() && config->bits != 8 && !(config->bits == 4 && (packed || fp4))) {
    group.Unsupported(absl::StrCat(config->bits, " bits of ", format, " are not supported"));
  }
  // The groups that a format always has; none where scales are of outputs, blocks or all.
  const int64_t size = nvfp4 ? 16 : fp4 ? 32 : -1;
  if (group.status().ok() && !packed && config->group_size != size) {
    group.Unsupported(
        absl::StrCat("group_size ", config->group_size, " of ", format,
                     " is not supported; supported: ", fp4 ? absl::StrCat(size) : "none"));
  }
  if (group.status().ok() && !packed && !config->symmetric) {
    group.Unsupported(absl::StrCat("symmetric false of ", format, " is not supported"));
  }
}

// Which group a matrix belongs to, its tensors tell: names of layers are not looked at.
std::vector<QuantConfig> ReadCompressedTensors(ConfigFields& fields) {
  const std::string format = fields.Text("format");
  const nlohmann::json* groups = fields.Object("config_groups");
  std::vector<QuantConfig> read;
  if (!fields.status().ok()) return read;
  if (groups == nullptr || groups->empty()) {
    const bool known = PackedFormatOf(format) != PackedFormat::kNone || format == kMixed;
    if (known) fields.Invalid("config_groups is missing");
    if (!known) {
      fields.Unsupported(absl::StrCat("format ", Quoted(format), " is not supported", kInstead));
    }
    return read;
  }
  for (const auto& [name, object] : groups->items()) {
    ConfigFields group(object, absl::StrCat(fields.prefix(), ".config_groups ", Quoted(name)));
    if (group.status().ok()) {
      ReadGroupOfLayers(group, group.TextOr("format", format), &read.emplace_back());
    }
    fields.Adopt(group.status());
  }
  return read;
}

void ReadModelOpt(ConfigFields& fields, QuantConfig* config) {
  config->method = Method::kModelOpt;
  const std::string algorithm = fields.TextOr("quant_algo", "");
  if (algorithm == "NVFP4") {
    config->bits = 4;
    config->packed = PackedFormat::kNvfp4;
    config->group_size = 16;
    config->scale_type = DType::kF32;
  } else if (algorithm == "FP8") {
    config->bits = 8;
    config->packed = PackedFormat::kFloat;
    config->group_size = -1;
  } else {
    fields.Unsupported(
        absl::StrCat("quant_algo ", Quoted(algorithm), " is not supported; supported: FP8, NVFP4"));
  }
}

std::vector<QuantConfig> ReadAllModelOpt(ConfigFields& fields) {
  std::vector<QuantConfig> read;
  if (fields.TextOr("quant_algo", "") != "MIXED_PRECISION") {
    ReadModelOpt(fields, &read.emplace_back());
    return read;
  }
  const nlohmann::json* layers = fields.Object("quantized_layers");
  if (layers == nullptr || layers->empty()) {
    fields.Invalid("quantized_layers is missing");
    return read;
  }
  // There is one entry for each matrix.
  std::set<std::string> algorithms;
  for (const auto& [name, object] : layers->items()) {
    ConfigFields of(object, absl::StrCat(fields.prefix(), ".quantized_layers ", Quoted(name)));
    const bool fresh = of.status().ok() && algorithms.insert(of.TextOr("quant_algo", "")).second;
    if (fresh) ReadModelOpt(of, &read.emplace_back());
    fields.Adopt(of.status());
  }
  return read;
}

}  // namespace

kernels::CodeKind QuantConfig::kind() const {
  switch (method) {
    case Method::kFp8:
      return kernels::CodeKind::kE4m3;
    case Method::kGptq:
    case Method::kAwq:
      break;
    case Method::kCompressedTensors:
    case Method::kModelOpt:
      if (packed == PackedFormat::kFloat) return kernels::CodeKind::kE4m3;
      if (packed == PackedFormat::kMxfp4) return kernels::CodeKind::kE2m1;
      if (packed == PackedFormat::kNvfp4) return kernels::CodeKind::kNvfp4;
  }
  return bits == 4 ? kernels::CodeKind::kInt4 : kernels::CodeKind::kInt8;
}

std::string DescribeQuantConfig(const QuantConfig& config) {
  constexpr const char* kMethods[] = {"GPTQ", "AWQ", "FP8", "compressed-tensors", "ModelOpt"};
  constexpr const char* kKinds[] = {"int4", "int8", "e2m1", "e4m3", "nvfp4"};
  std::string groups = "";
  if (config.block_rows > 0) {
    groups = absl::StrCat(", blocks of ", config.block_rows, " by ", config.block_columns);
  } else if (config.group_size > 0) {
    groups = absl::StrCat(", groups of ", config.group_size);
  }
  return absl::StrCat(kMethods[static_cast<size_t>(config.method)], " ",
                      kKinds[static_cast<size_t>(config.kind())], groups,
                      config.any_order ? " of any order" : "",
                      config.quantises_activations ? ", activations int8" : "");
}

absl::StatusOr<std::vector<QuantConfig>> ParseQuantConfigs(const nlohmann::json& object,
                                                           const std::string& path) {
  ConfigFields fields(object, path);
  TUTTI_RETURN_IF_ERROR(fields.status());
  const std::string method = fields.Has("quant_method") ? fields.Text("quant_method")
                             : fields.Has("bits") && fields.Has("desc_act") ? "gptq"
                                                                            : "not named";
  std::vector<QuantConfig> read;
  if (method == "gptq") {
    ReadGptq(fields, &read.emplace_back());
    ReadDynamic(fields, &read);
  } else if (method == "awq") {
    ReadAwq(fields, &read.emplace_back());
  } else if (method == "fp8") {
    ReadFp8(fields, &read.emplace_back());
  } else if (method == "compressed-tensors") {
    read = ReadCompressedTensors(fields);
  } else if (method == "modelopt") {
    read = ReadAllModelOpt(fields);
  } else {
    fields.Unsupported(
        absl::StrCat("quant_method ", Quoted(method), " is not supported", kInstead));
  }
  TUTTI_RETURN_IF_ERROR(fields.status());
  std::vector<QuantConfig> different;
  for (const QuantConfig& one : read) {
    if (std::find(different.begin(), different.end(), one) != different.end()) continue;
    if (different.size() == kQuantFormatsMax) {
      return absl::UnimplementedError(absl::StrCat(path, " has more than ", kQuantFormatsMax,
                                                   " formats, which are the most that are served"));
    }
    different.push_back(one);
  }
  return different;
}

}  // namespace tutti::model
