// ChatGLM3-6B with 8k, 32k and 128k: fused query, key and value with biases, few KV heads, fused
// gate and up, and rotary embedding over the first half of every head, in neighbouring pairs.
#include "absl/strings/str_cat.h"
#include "model/family.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

// The base is this times rope_ratio.
constexpr double kChatGlmTheta = 10000;

// The ratios of the models whose code multiplies the base by them. Another one (ChatGLM2-32k has
// 16) is applied differently by the code it was published with.
double ReadRopeRatio(ConfigFields& fields) {
  const double ratio = fields.NumberOr("rope_ratio", 0, kRopeFactorMax, 1);
  if (ratio != 1 && ratio != 50 && ratio != 500) {
    fields.Unsupported(
        absl::StrCat("rope_ratio ", ratio, " is not supported; supported: 1, 50, 500"));
    return 1;
  }
  return ratio;
}

// Switches of the published code, each with the only value a published ChatGLM3 has.
void RefuseUnusual(ConfigFields& fields) {
  struct Switch {
    const char* name;
    bool expected;
  };
  for (const Switch& s :
       {Switch{"add_qkv_bias", true}, Switch{"rmsnorm", true}, Switch{"post_layer_norm", true},
        Switch{"original_rope", true}, Switch{"add_bias_linear", false},
        Switch{"apply_residual_connection_post_layernorm", false},
        Switch{"fp32_residual_connection", false}}) {
    if (fields.BoolOr(s.name, s.expected) != s.expected) {
      fields.Unsupported(
          absl::StrCat(s.name, s.expected ? " false" : " true", " is not supported"));
    }
  }
  if (fields.IntOr("quantization_bit", 0, 64, 0) != 0) {
    fields.Unsupported("quantization_bit: quantised weights are not supported");
  }
}

void ReadChatGlm3Config(ConfigFields& fields, ModelConfig* config) {
  RefuseUnusual(fields);
  config->hidden_size = fields.Int("hidden_size", 1, kHiddenSizeMax);
  config->intermediate_size = fields.Int("ffn_hidden_size", 1, kIntermediateSizeMax);
  config->num_layers = fields.Int("num_layers", 1, kNumLayersMax);
  config->num_heads = fields.Int("num_attention_heads", 1, kNumHeadsMax);
  // Without it the fused matrix has query, key and value of each head side by side, and not all
  // queries first: another layout, which no published ChatGLM3 has.
  if (!fields.BoolOr("multi_query_attention", false)) {
    fields.Unsupported("multi_query_attention false is not supported for ChatGLMModel");
  }
  config->num_kv_heads = fields.IntOr("multi_query_group_num", 1, kNumHeadsMax, 1);
  config->head_dim = fields.Int("kv_channels", 4, kHeadDimMax);
  config->vocab_size = fields.Int("padded_vocab_size", 1, kVocabSizeMax);
  config->max_position_embeddings = fields.Int("seq_length", 1, kContextMax);
  config->rms_norm_eps =
      static_cast<float>(fields.Number("layernorm_epsilon", kNormEpsilonMin, kNormEpsilonMax));
  CheckHeads(fields, *config);
  if (config->head_dim % 4 != 0) {
    fields.Invalid(
        absl::StrCat("kv_channels ", config->head_dim,
                     " is not a multiple of 4: rotary embedding turns pairs of half a head"));
  }
  config->attention_bias = true;
  config->tie_word_embeddings = fields.BoolOr("tie_word_embeddings", false);
  config->rope.theta = kChatGlmTheta * ReadRopeRatio(fields);
  config->rope.rotary_dim = config->head_dim / 2;
  config->rope.interleaved = true;
  ReadDType(fields, config, "float16");
  config->eos_token_ids = fields.Ids("eos_token_id", 0, config->vocab_size - 1, kEosTokensMax);
}

constexpr WeightRule kChatGlm3Weights[] = {
    {Role::kEmbedding, "transformer.embedding.word_embeddings.weight", Width::kVocab,
     Width::kHidden, SplitAxis::kOut, Owner::kFirstStage},
    {Role::kInputNorm, "transformer.encoder.layers.{}.input_layernorm.weight", Width::kHidden},
    {Role::kQuery, "transformer.encoder.layers.{}.self_attention.query_key_value.weight",
     Width::kQuery, Width::kHidden, SplitAxis::kOut},
    {Role::kKey, "transformer.encoder.layers.{}.self_attention.query_key_value.weight",
     Width::kKeyValue, Width::kHidden, SplitAxis::kOut},
    {Role::kValue, "transformer.encoder.layers.{}.self_attention.query_key_value.weight",
     Width::kKeyValue, Width::kHidden, SplitAxis::kOut},
    {Role::kQueryBias, "transformer.encoder.layers.{}.self_attention.query_key_value.bias",
     Width::kQuery, Width::kNone, SplitAxis::kOut},
    {Role::kKeyBias, "transformer.encoder.layers.{}.self_attention.query_key_value.bias",
     Width::kKeyValue, Width::kNone, SplitAxis::kOut},
    {Role::kValueBias, "transformer.encoder.layers.{}.self_attention.query_key_value.bias",
     Width::kKeyValue, Width::kNone, SplitAxis::kOut},
    {Role::kAttentionOutput, "transformer.encoder.layers.{}.self_attention.dense.weight",
     Width::kHidden, Width::kQuery, SplitAxis::kIn},
    {Role::kPostAttentionNorm, "transformer.encoder.layers.{}.post_attention_layernorm.weight",
     Width::kHidden},
    {Role::kGate, "transformer.encoder.layers.{}.mlp.dense_h_to_4h.weight", Width::kIntermediate,
     Width::kHidden, SplitAxis::kOut},
    {Role::kUp, "transformer.encoder.layers.{}.mlp.dense_h_to_4h.weight", Width::kIntermediate,
     Width::kHidden, SplitAxis::kOut},
    {Role::kDown, "transformer.encoder.layers.{}.mlp.dense_4h_to_h.weight", Width::kHidden,
     Width::kIntermediate, SplitAxis::kIn},
    {Role::kFinalNorm, "transformer.encoder.final_layernorm.weight", Width::kHidden, Width::kNone,
     SplitAxis::kNone, Owner::kLastStage},
    {Role::kHead, "transformer.output_layer.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
     Owner::kLastStage},
};

}  // namespace

const ModelFamily kChatGlm3Family = {
    .architecture = "ChatGLMModel",
    .model_type = "chatglm",
    .read_config = ReadChatGlm3Config,
    .weights = kChatGlm3Weights,
};

}  // namespace tutti::model
