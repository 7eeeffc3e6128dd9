// The sampling that a checkpoint's authors advise, and which tokens end an answer:
// generation_config.json.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"

namespace tutti::model {

// Absent fields were absent from the file: the service's own defaults apply.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;  // each in [0, vocab_size); may be empty; no id twice
  std::optional<bool> do_sample;       // false: the authors advise greedy decoding
  std::optional<double> temperature;
  std::optional<int32_t> top_k;  // 0: off
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

// Reads the text of a generation_config.json. Without an "eos_token_id" there, that of `config`
// applies. INVALID_ARGUMENT names the field.
absl::StatusOr<GenerationConfig> ParseGenerationConfig(std::string_view json,
                                                       std::string_view file_name,
                                                       const ModelConfig& config);

// Reads `dir`/generation_config.json. Without that file: only `config`'s end tokens.
absl::StatusOr<GenerationConfig> LoadGenerationConfig(const std::string& dir,
                                                      const ModelConfig& config);

}  // namespace tutti::model
