#include "model/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/config_fields.h"
#include "model/json_document.h"
#include "model/limits.h"
#include "text/text_file.h"

namespace tutti::model {
namespace {

std::optional<double> OptionalNumber(ConfigFields& fields, const std::string& name, double least,
                                     double most) {
  if (!fields.Has(name)) return std::nullopt;
  return fields.Number(name, least, most);
}

}  // namespace

absl::StatusOr<GenerationConfig> ParseGenerationConfig(std::string_view json,
                                                       std::string_view file_name,
                                                       const ModelConfig& config) {
  TUTTI_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(json, file_name, kConfigBytesMax));
  ConfigFields fields(root, std::string(file_name));
  GenerationConfig out;
  out.eos_token_ids = fields.Ids("eos_token_id", 0, config.vocab_size - 1, kEosTokensMax);
  if (out.eos_token_ids.empty()) out.eos_token_ids = config.eos_token_ids;
  if (fields.Has("do_sample")) out.do_sample = fields.BoolOr("do_sample", false);
  out.temperature = OptionalNumber(fields, "temperature", 0, kAdvisedTemperatureMax);
  if (fields.Has("top_k")) {
    // -1 and 0 both say "off".
    out.top_k = static_cast<int32_t>(std::max<int64_t>(0, fields.Int("top_k", -1, INT32_MAX)));
  }
  out.top_p = OptionalNumber(fields, "top_p", 0, 1);
  out.min_p = OptionalNumber(fields, "min_p", 0, 1);
  out.repetition_penalty =
      OptionalNumber(fields, "repetition_penalty", kAdvisedPenaltyMin, kAdvisedPenaltyMax);
  TUTTI_RETURN_IF_ERROR(fields.status());
  return out;
}

absl::StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& dir,
                                                      const ModelConfig& config) {
  const std::string path = dir + "/generation_config.json";
  const absl::StatusOr<std::string> text = text::ReadTextFile(path, kConfigBytesMax);
  if (absl::IsNotFound(text.status()))
    return GenerationConfig{.eos_token_ids = config.eos_token_ids};
  TUTTI_RETURN_IF_ERROR(text.status());
  return ParseGenerationConfig(*text, path, config);
}

}  // namespace tutti::model
