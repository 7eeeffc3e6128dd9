// Llama 2, 3 and models that share their layout.
#include "model/decoder_weights.h"
#include "model/family.h"

namespace tutti::model {
namespace {

void ReadLlamaConfig(ConfigFields& fields, ModelConfig* config) {
  // KV heads are left out by files older than the models that have fewer.
  ReadDecoderConfig(fields, config, {.num_kv_heads = true, .head_dim = true});
  // The switches would add a bias to the attention output and to the MLP too. No published Llama
  // has them on.
  for (const char* name : {"attention_bias", "mlp_bias"}) {
    if (fields.BoolOr(name, false)) {
      fields.Unsupported(std::string(name) + " true is not supported for LlamaForCausalLM");
    }
  }
}

constexpr auto kLlamaWeights = DecoderWeights(std::array<WeightRule, 0>(), kDecoderMlp);

}  // namespace

const ModelFamily kLlamaFamily = {
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .read_config = ReadLlamaConfig,
    .weights = kLlamaWeights,
};

}  // namespace tutti::model
