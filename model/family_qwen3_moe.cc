// Qwen3 with a mixture of experts in every layer.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "model/decoder_weights.h"
#include "model/family.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

// Every published Qwen3 has experts in all layers; the two fields could say otherwise.
void RefuseDenseLayers(ConfigFields& fields) {
  if (fields.IntOr("decoder_sparse_step", 1, kNumLayersMax, 1) != 1) {
    fields.Unsupported("decoder_sparse_step other than 1 is not supported");
  }
  const auto at = fields.object().find("mlp_only_layers");
  if (at != fields.object().end() && !at->is_null() && at->size() > 0) {
    fields.Unsupported("mlp_only_layers that names layers is not supported");
  }
}

void ReadQwen3MoeConfig(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config, {.head_dim = true});
  config->qk_norm = true;
  if (fields.BoolOr("attention_bias", false)) {
    fields.Unsupported("attention_bias true is not supported for Qwen3MoeForCausalLM");
  }
  RefuseDenseLayers(fields);
  // transformers 5 writes the second name.
  const char* const experts = fields.Has("num_experts") ? "num_experts" : "num_local_experts";
  config->num_experts = fields.Int(experts, 1, kExpertsMax);
  if (fields.IntOr("num_local_experts", 1, kExpertsMax, config->num_experts) !=
      config->num_experts) {
    fields.Invalid("num_experts and num_local_experts differ");
  }
  config->experts_per_token = fields.Int("num_experts_per_tok", 1, config->num_experts);
  config->expert_intermediate_size = fields.Int("moe_intermediate_size", 1, kIntermediateSizeMax);
  config->norm_topk_prob = fields.BoolOr("norm_topk_prob", false);
  if (config->num_experts * config->num_layers * 3 > kTensorsMax) {
    fields.Invalid(absl::StrCat("num_experts ", config->num_experts, " in ", config->num_layers,
                                " layers: more tensors than the limit of ", kTensorsMax));
  }
}

constexpr std::array kQwen3MoeMlp = {
    WeightRule{Role::kRouter, "model.layers.{}.mlp.gate.weight", Width::kExperts, Width::kHidden},
    WeightRule{Role::kExpertGate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight",
               Width::kExpert, Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kExpertUp, "model.layers.{}.mlp.experts.{e}.up_proj.weight", Width::kExpert,
               Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kExpertDown, "model.layers.{}.mlp.experts.{e}.down_proj.weight",
               Width::kHidden, Width::kExpert, SplitAxis::kIn},
};
constexpr auto kQwen3MoeWeights = DecoderWeights(kDecoderHeadNorms, kQwen3MoeMlp);

}  // namespace

const ModelFamily kQwen3MoeFamily = {
    .architecture = "Qwen3MoeForCausalLM",
    .model_type = "qwen3_moe",
    .read_config = ReadQwen3MoeConfig,
    .weights = kQwen3MoeWeights,
};

}  // namespace tutti::model
