// Qwen3, dense: Llama's decoder with a norm on every query and key head.
#include "model/decoder_weights.h"
#include "model/family.h"

namespace tutti::model {
namespace {

// The dimension for a file that does not say: what transformers takes then.
constexpr int64_t kQwen3HeadDim = 128;

void ReadQwen3Config(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config, {.usual_head_dim = kQwen3HeadDim});
  config->qk_norm = true;
  ReadAttentionBias(fields, config);
}

constexpr auto kQwen3Weights = DecoderWeights(kDecoderHeadNorms, kNoWeights);

}  // namespace

const ModelFamily kQwen3Family = {
    .architecture = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .read_config = ReadQwen3Config,
    .weights = kQwen3Weights,
};

}  // namespace tutti::model
