// Qwen1.5, Qwen2 and Qwen2.5, dense: Llama's decoder with biases on queries, keys and values.
#include "model/family.h"

namespace tutti {
namespace {

void ReadQwen2Config(ConfigFields& fields, ModelConfig* config) {
  ReadDecoderConfig(fields, config, {.num_kv_heads = true, .head_dim = true});
  config->attention_bias = true;
}

constexpr WeightRule kQwen2Weights[] = {
    {Role::kEmbedding, "model.embed_tokens.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
     Owner::kFirstStage},
    {Role::kInputNorm, "model.layers.{}.input_layernorm.weight", Width::kHidden},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj.weight", Width::kQuery, Width::kHidden,
     SplitAxis::kOut},
    {Role::kKey, "model.layers.{}.self_attn.k_proj.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kValue, "model.layers.{}.self_attn.v_proj.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kQueryBias, "model.layers.{}.self_attn.q_proj.bias", Width::kQuery, Width::kNone,
     SplitAxis::kOut},
    {Role::kKeyBias, "model.layers.{}.self_attn.k_proj.bias", Width::kKeyValue, Width::kNone,
     SplitAxis::kOut},
    {Role::kValueBias, "model.layers.{}.self_attn.v_proj.bias", Width::kKeyValue, Width::kNone,
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

const ModelFamily kQwen2Family = {
    .architecture = "Qwen2ForCausalLM",
    .model_type = "qwen2",
    .read_config = ReadQwen2Config,
    .weights = kQwen2Weights,
};

}  // namespace tutti
