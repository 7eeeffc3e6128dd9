// Qwen3, dense: Llama's decoder with a norm on every query and key head.
#include "model/decoder_weights.h"
#include "model/family.h"

namespace tutti::model {
namespace {

void ReadQwen3Config(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config);
  config->qk_norm = true;
  // The switch would add a bias to the attention output too. No published Qwen3 has it on.
  if (fields.BoolOr("attention_bias", false)) {
    fields.Unsupported("attention_bias true is not supported for Qwen3ForCausalLM");
  }
}

constexpr auto kQwen3Weights = DecoderWeights(kDecoderHeadNorms, kDecoderMlp);

}  // namespace

const ModelFamily kQwen3Family = {
    .architecture = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .read_config = ReadQwen3Config,
    .weights = kQwen3Weights,
};

}  // namespace tutti::model
