// The model families we run. A family is data: a reader for its config.json and a table of its
// tensors.
//
// To add one: a file family_<name>.cc with a ModelFamily, and a row in family.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/config_fields.h"
#include "model/model_config.h"
#include "model/weight_map.h"

namespace tutti {

struct ModelFamily {
  std::string_view architecture;  // as in "architectures" of config.json
  std::string_view model_type;
  // Fills everything but architecture and model_type. Errors collect in `fields`.
  void (*read_config)(ConfigFields& fields, ModelConfig* config);
  std::span<const WeightRule> weights;
};

// Null when we do not run that architecture.
const ModelFamily* FindFamily(std::string_view architecture);

// "Qwen3ForCausalLM, ..." for errors.
std::string SupportedArchitectures();

// Reads what the configurations of Llama-shaped families have in common: sizes, rotary base, dtype,
// end tokens. Refuses what none of them runs here: other activations, active sliding windows,
// scaled or partial rotary embedding, dual chunk attention. Leaves attention_bias and qk_norm
// alone.
void ReadDecoderConfig(ConfigFields& fields, ModelConfig* config);

// One per file family_*.cc.
extern const ModelFamily kQwen3Family;

}  // namespace tutti
