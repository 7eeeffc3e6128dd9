// Qwen3 with a mixture of experts in every layer, or in some.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/decoder_weights.h"
#include "model/family.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

// Every published Qwen3 has experts in all layers; two fields can say otherwise: every n-th layer
// only, and not the layers that are named.
void ReadDenseLayers(ConfigFields& fields, ModelConfig* config) {
  const int64_t step = fields.IntOr("decoder_sparse_step", 1, kNumLayersMax, 1);
  const std::vector<int32_t> named =
      fields.Ids("mlp_only_layers", 0, INT32_MAX, static_cast<size_t>(kNumLayersMax));
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    const bool dense = std::find(named.begin(), named.end(), layer) != named.end();
    if (dense || (layer + 1) % step != 0) config->dense_layers.push_back(layer);
  }
  if (static_cast<int64_t>(config->dense_layers.size()) < config->num_layers) return;
  // Nothing is left of the mixture.
  config->num_experts = config->experts_per_token = config->expert_intermediate_size = 0;
  config->dense_layers.clear();
}

void ReadQwen3MoeConfig(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config, {.head_dim = true});
  config->qk_norm = true;
  ReadAttentionBias(fields, config);
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
  ReadDenseLayers(fields, config);
}

constexpr std::array kQwen3MoeExperts = {
    WeightRule{Role::kRouter, "model.layers.{}.mlp.gate.weight", Width::kExperts, Width::kHidden},
    WeightRule{Role::kExpertGate, "model.layers.{}.mlp.experts.{e}.gate_proj.weight",
               Width::kExpert, Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kExpertUp, "model.layers.{}.mlp.experts.{e}.up_proj.weight", Width::kExpert,
               Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kExpertDown, "model.layers.{}.mlp.experts.{e}.down_proj.weight",
               Width::kHidden, Width::kExpert, SplitAxis::kIn},
};
constexpr auto kQwen3MoeWeights = DecoderWeights(kDecoderHeadNorms, kQwen3MoeExperts);

}  // namespace

const ModelFamily kQwen3MoeFamily = {
    .architecture = "Qwen3MoeForCausalLM",
    .model_type = "qwen3_moe",
    .read_config = ReadQwen3MoeConfig,
    .weights = kQwen3MoeWeights,
};

}  // namespace tutti::model
