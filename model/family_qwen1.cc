// The original Qwen (Qwen-7B, Qwen-1.8B, their chats): fused query, key and value with biases, and
// beyond the trained length a rotary base that grows with the prompt and sharper attention.
#include "absl/strings/str_cat.h"
#include "model/family.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

// Fields that would change the computation in ways no published Qwen does.
void RefuseUnusual(ConfigFields& fields, const ModelConfig& config) {
  if (!fields.BoolOr("no_bias", true)) fields.Unsupported("no_bias false is not supported");
  if (!fields.BoolOr("scale_attn_weights", true)) {
    fields.Unsupported("scale_attn_weights false is not supported");
  }
  if (fields.BoolOr("use_cache_quantization", false)) {
    fields.Unsupported("use_cache_quantization true is not supported");
  }
  if (fields.NumberOr("rotary_pct", 0, 1, 1) != 1) {
    fields.Unsupported("rotary_pct other than 1 is not supported");
  }
  if (config.q_width() != config.hidden_size) {
    fields.Invalid(absl::StrCat("num_attention_heads ", config.num_heads, " of kv_channels ",
                                config.head_dim, " do not make hidden_size ", config.hidden_size));
  }
}

void ReadQwen1Config(ConfigFields& fields, ModelConfig* config) {
  config->hidden_size = fields.Int("hidden_size", 1, kHiddenSizeMax);
  // Written down is the sum of both branches of the MLP.
  const int64_t both = fields.Int("intermediate_size", 2, 2 * kIntermediateSizeMax);
  if (both % 2 != 0) fields.Invalid(absl::StrCat("intermediate_size ", both, " is odd"));
  config->intermediate_size = both / 2;
  config->num_layers = fields.Int("num_hidden_layers", 1, kNumLayersMax);
  config->num_heads = fields.Int("num_attention_heads", 1, kNumHeadsMax);
  config->num_kv_heads = config->num_heads;
  config->head_dim = fields.IntOr("kv_channels", 2, kHeadDimMax, 128);
  config->vocab_size = fields.Int("vocab_size", 1, kVocabSizeMax);
  config->rms_norm_eps =
      static_cast<float>(fields.Number("layer_norm_epsilon", kNormEpsilonMin, kNormEpsilonMax));
  CheckHeads(fields, *config);
  RefuseUnusual(fields, *config);
  config->attention_bias = true;
  config->tie_word_embeddings = fields.BoolOr("tie_word_embeddings", false);

  const int64_t trained = fields.Int("seq_length", 2, kContextMax);
  config->max_position_embeddings =
      fields.IntOr("max_position_embeddings", 1, kContextMax, trained);
  config->rope.theta = fields.Number("rotary_emb_base", kRopeThetaMin, kRopeThetaMax);
  config->rope.rotary_dim = config->head_dim;
  if (fields.BoolOr("use_dynamic_ntk", true)) {
    config->rope.scaling = RopeConfig::Scaling::kDynamicNtk;
    config->rope.original_context = trained;
    if (config->head_dim < 4) fields.Invalid("kv_channels must be 4 or more with use_dynamic_ntk");
  }
  if (fields.BoolOr("use_logn_attn", true)) config->logn_length = trained;

  // The published files do not say; their tensors are bfloat16.
  ReadDType(fields, config, "bfloat16");
  config->eos_token_ids = fields.Ids("eos_token_id", 0, config->vocab_size - 1, kEosTokensMax);
}

constexpr WeightRule kQwen1Weights[] = {
    {Role::kEmbedding, "transformer.wte.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
     Owner::kFirstStage},
    {Role::kInputNorm, "transformer.h.{}.ln_1.weight", Width::kHidden},
    {Role::kQuery, "transformer.h.{}.attn.c_attn.weight", Width::kQuery, Width::kHidden,
     SplitAxis::kOut},
    {Role::kKey, "transformer.h.{}.attn.c_attn.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kValue, "transformer.h.{}.attn.c_attn.weight", Width::kKeyValue, Width::kHidden,
     SplitAxis::kOut},
    {Role::kQueryBias, "transformer.h.{}.attn.c_attn.bias", Width::kQuery, Width::kNone,
     SplitAxis::kOut},
    {Role::kKeyBias, "transformer.h.{}.attn.c_attn.bias", Width::kKeyValue, Width::kNone,
     SplitAxis::kOut},
    {Role::kValueBias, "transformer.h.{}.attn.c_attn.bias", Width::kKeyValue, Width::kNone,
     SplitAxis::kOut},
    {Role::kAttentionOutput, "transformer.h.{}.attn.c_proj.weight", Width::kHidden, Width::kQuery,
     SplitAxis::kIn},
    {Role::kPostAttentionNorm, "transformer.h.{}.ln_2.weight", Width::kHidden},
    // c_proj(w1(x) * silu(w2(x))): the second matrix is the gate.
    {Role::kGate, "transformer.h.{}.mlp.w2.weight", Width::kIntermediate, Width::kHidden,
     SplitAxis::kOut},
    {Role::kUp, "transformer.h.{}.mlp.w1.weight", Width::kIntermediate, Width::kHidden,
     SplitAxis::kOut},
    {Role::kDown, "transformer.h.{}.mlp.c_proj.weight", Width::kHidden, Width::kIntermediate,
     SplitAxis::kIn},
    {Role::kFinalNorm, "transformer.ln_f.weight", Width::kHidden, Width::kNone, SplitAxis::kNone,
     Owner::kLastStage},
    {Role::kHead, "lm_head.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
     Owner::kLastStage},
};

}  // namespace

const ModelFamily kQwen1Family = {
    .architecture = "QWenLMHeadModel",
    .model_type = "qwen",
    .read_config = ReadQwen1Config,
    .weights = kQwen1Weights,
};

}  // namespace tutti::model
