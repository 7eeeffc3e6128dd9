// Llama 2, 3 and what shares their layout.
#include "model/family.h"

namespace tutti {
namespace {

// Bases and KV heads are left out by files older than the models that changed them.
constexpr double kLlamaTheta = 10000;

void ReadLlamaConfig(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config,
                    {.num_kv_heads = true, .head_dim = true, .rope_theta = kLlamaTheta});
  // The switches would add a bias to the attention output and to the MLP too. No published Llama
  // has them on.
  for (const char* name : {"attention_bias", "mlp_bias"}) {
    if (fields.BoolOr(name, false)) {
      fields.Unsupported(std::string(name) + " true is not supported for LlamaForCausalLM");
    }
  }
}

constexpr WeightRule kLlamaWeights[] = {
    {Role::kEmbedding, "model.embed_tokens.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
     Owner::kFirstStage},
    {Role::kInputNorm, "model.layers.{}.input_layernorm.weight", Width::kHidden},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj.weight", Width::kQuery, Width::kHidden,
     SplitAxis::kOut},
    {Role::kKey, "model.layers.{}.self_attn.k_proj.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kValue, "model.layers.{}.self_attn.v_proj.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj.weight", Width::kHidden,
     Width::kQuery, SplitAxis::kIn},
    {Role::kPostAttentionNorm, "model.layers.{}.post_attention_layernorm.weight", Width::kHidden},
    {Role::kGate, "model.layers.{}.mlp.gate_proj.weight", Width::kIntermediate, Width::kHidden,
     SplitAxis::kOut},
    {Role::kUp, "model.layers.{}.mlp.up_proj.weight", Width::kIntermediate, Width::kHidden,
     SplitAxis::kOut},
    {Role::kDown, "model.layers.{}.mlp.down_proj.weight", Width::kHidden, Width::kIntermediate,
     SplitAxis::kIn},
    {Role::kFinalNorm, "model.norm.weight", Width::kHidden, Width::kNone, SplitAxis::kNone,
     Owner::kLastStage},
    {Role::kHead, "lm_head.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
     Owner::kLastStage},
};

}  // namespace

const ModelFamily kLlamaFamily = {
    .architecture = "LlamaForCausalLM",
    .model_type = "llama",
    .read_config = ReadLlamaConfig,
    .weights = kLlamaWeights,
};

}  // namespace tutti
