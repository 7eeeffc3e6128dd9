#include "model/config_json.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "model/checkpoint.h"
#include "model/config_fields.h"
#include "model/family.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "model/quantised_roles.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

// "architectures" is a list of one name in every published checkpoint.
std::string ReadArchitecture(ConfigFields& fields) {
  const auto at = fields.object().find("architectures");
  if (at == fields.object().end() || at->is_null()) {
    fields.Invalid(
        "architectures is missing: the name of the model's class, such as [\"Qwen3ForCausalLM\"]");
    return "";
  }
  if (!at->is_array() || at->size() != 1 || !at->front().is_string()) {
    fields.Invalid("architectures must be a list of one string");
    return "";
  }
  return at->front().get<std::string>();
}

void ReadQuantised(ConfigFields& fields, ModelConfig* config) {
  for (const char* name : {"quantization_config", "compression_config"}) {
    const auto* object = fields.Object(name);
    if (object == nullptr) continue;
    auto said = ParseQuantConfigs(*object, absl::StrCat(fields.prefix(), ": ", name));
    fields.Adopt(said.status());
    if (!said.ok()) return;
    config->quant = QuantFormats(*std::move(said), UsualQuantisedRoles());
  }
}

// Perhaps without dtype.
absl::StatusOr<ModelConfig> ParseFields(std::string_view json, std::string_view file_name) {
  TUTTI_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(json, file_name, kConfigBytesMax));
  ConfigFields fields(root, std::string(file_name));
  TUTTI_RETURN_IF_ERROR(fields.status());

  ModelConfig config;
  config.architecture = ReadArchitecture(fields);
  TUTTI_RETURN_IF_ERROR(fields.status());
  const ModelFamily* family = FindFamily(config.architecture);
  if (family == nullptr) {
    fields.Unsupported(absl::StrCat("architecture ", Quoted(config.architecture),
                                    " is not supported; supported: ", SupportedArchitectures()));
    return fields.status();
  }
  config.model_type = std::string(family->model_type);
  if (fields.TextOr("model_type", config.model_type) != config.model_type) {
    fields.Invalid(absl::StrCat("model_type is ", Quoted(fields.Text("model_type")), ", that of ",
                                config.architecture, " is ", config.model_type));
  }
  ReadQuantised(fields, &config);
  family->read_config(fields, &config);
  TUTTI_RETURN_IF_ERROR(fields.status());
  return config;
}

// As transformers does: the type of the first tensor of numbers that are not whole.
absl::StatusOr<DType> DTypeOfTensors(const std::string& dir) {
  TUTTI_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(dir));
  for (const TensorInfo& tensor : checkpoint->tensors()) {
    if (const std::optional<DType> type = ComputeType(tensor.dtype)) return *type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(dir, ": config.json does not say dtype, and no tensor is BF16, F16 or F32"));
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json, std::string_view file_name) {
  TUTTI_ASSIGN_OR_RETURN(ModelConfig config, ParseFields(json, file_name));
  if (config.says_dtype) return config;
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(file_name), ": dtype is missing, and there is no checkpoint beside it"));
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& dir) {
  const std::string path = dir + "/config.json";
  TUTTI_ASSIGN_OR_RETURN(const std::string text, text::ReadTextFile(path, kConfigBytesMax));
  TUTTI_ASSIGN_OR_RETURN(ModelConfig config, ParseFields(text, path));
  if (!config.says_dtype) {
    TUTTI_ASSIGN_OR_RETURN(config.dtype, DTypeOfTensors(dir));
    config.says_dtype = true;
  }
  TUTTI_RETURN_IF_ERROR(LoadQuantizeConfig(dir, &config));
  // Without a checkpoint, or parts of it, as its files usually are.
  const auto checkpoint = Checkpoint::Open(dir);
  if (checkpoint.ok()) TUTTI_RETURN_IF_ERROR(FindQuantisedRoles(**checkpoint, &config));
  return config;
}

}  // namespace tutti::model
