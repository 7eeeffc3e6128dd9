// Qwen1.5, Qwen2 and Qwen2.5, dense: Llama's decoder with biases on queries, keys and values.
#include "model/decoder_weights.h"
#include "model/family.h"

namespace tutti::model {
namespace {

void ReadQwen2Config(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config, {.num_kv_heads = true, .head_dim = true});
  config->attention_bias = true;
}

constexpr std::array kQwen2Biases = {
    WeightRule{Role::kQueryBias, "model.layers.{}.self_attn.q_proj.bias", Width::kQuery,
               Width::kNone, SplitAxis::kOut},
    WeightRule{Role::kKeyBias, "model.layers.{}.self_attn.k_proj.bias", Width::kKeyValue,
               Width::kNone, SplitAxis::kOut},
    WeightRule{Role::kValueBias, "model.layers.{}.self_attn.v_proj.bias", Width::kKeyValue,
               Width::kNone, SplitAxis::kOut},
};
constexpr auto kQwen2Weights = DecoderWeights(kQwen2Biases, kDecoderMlp);

}  // namespace

const ModelFamily kQwen2Family = {
    .architecture = "Qwen2ForCausalLM",
    .model_type = "qwen2",
    .read_config = ReadQwen2Config,
    .weights = kQwen2Weights,
};

}  // namespace tutti::model
