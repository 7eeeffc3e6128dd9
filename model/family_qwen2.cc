// Qwen1.5, Qwen2 and Qwen2.5, dense: Llama's decoder with biases on queries, keys and values.
#include "model/decoder_weights.h"
#include "model/family.h"

namespace tutti::model {
namespace {

void ReadQwen2Config(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config, {.num_kv_heads = true, .head_dim = true});
  config->attention_bias = true;
}

constexpr auto kQwen2Weights = DecoderWeights(kNoWeights, kNoWeights);

}  // namespace

const ModelFamily kQwen2Family = {
    .architecture = "Qwen2ForCausalLM",
    .model_type = "qwen2",
    .read_config = ReadQwen2Config,
    .weights = kQwen2Weights,
};

}  // namespace tutti::model
