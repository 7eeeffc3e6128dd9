// Qwen3, dense: Llama's decoder with a norm on every query and key head.
#include "model/family.h"

namespace tutti {
namespace {

void ReadQwen3Config(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config);
  config->qk_norm = true;
  // The switch would add a bias to the attention output too. No published Qwen3 has it on.
  if (fields.BoolOr("attention_bias", false)) {
    fields.Unsupported("attention_bias true is not supported for Qwen3ForCausalLM");
  }
}

constexpr WeightRule kQwen3Weights[] = {
    {Role::kEmbedding, "model.embed_tokens.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
     Owner::kFirstStage},
    {Role::kInputNorm, "model.layers.{}.input_layernorm.weight", Width::kHidden},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj.weight", Width::kQuery, Width::kHidden,
     SplitAxis::kOut},
    {Role::kKey, "model.layers.{}.self_attn.k_proj.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kValue, "model.layers.{}.self_attn.v_proj.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm.weight", Width::kHeadDim},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm.weight", Width::kHeadDim},
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

const ModelFamily kQwen3Family = {
    .architecture = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .read_config = ReadQwen3Config,
    .weights = kQwen3Weights,
};

}  // namespace tutti
