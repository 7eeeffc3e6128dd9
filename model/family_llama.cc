// Llama 2, 3 and models that share their layout.
#include "model/decoder_weights.h"
#include "model/family.h"

namespace tutti::model {
namespace {

void ReadLlamaConfig(ConfigFields& fields, ModelConfig* config) {
  // KV heads are left out by files older than the models that have fewer.
  ReadDecoderConfig(fields, config, {.num_kv_heads = true, .head_dim = true});
  ReadAttentionBias(fields, config);
  config->mlp_bias = fields.BoolOr("mlp_bias", false);
}

constexpr auto kLlamaWeights = DecoderWeights(kNoWeights, kNoWeights);

}  // namespace

const ModelFamily kLlamaFamily = {
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .read_config = ReadLlamaConfig,
    .weights = kLlamaWeights,
};

}  // namespace tutti::model
