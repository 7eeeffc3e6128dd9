// The fields that the config.json of all Llama-shaped families share.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "model/family.h"
#include "model/json_document.h"
#include "model/limits.h"

namespace tutti::model {
namespace {

// Within the limits of a head_dim that is written down.
int64_t DerivedHeadDim(ConfigFields& fields, const ModelConfig& config) {
  const int64_t head_dim = config.hidden_size / config.num_heads;
  if (config.hidden_size % config.num_heads == 0 && head_dim >= 2 && head_dim <= kHeadDimMax) {
    return head_dim;
  }
  fields.Invalid(absl::StrCat("head_dim is missing, and hidden_size ", config.hidden_size,
                              " over num_attention_heads ", config.num_heads,
                              " is not a head_dim"));
  return 2;
}

void ReadSizes(ConfigFields& fields, ModelConfig* config, const DecoderDefaults& defaults) {
  config->hidden_size = fields.Int("hidden_size", 1, kHiddenSizeMax);
  config->intermediate_size = fields.Int("intermediate_size", 1, kIntermediateSizeMax);
  config->num_layers = fields.Int("num_hidden_layers", 1, kNumLayersMax);
  config->num_heads = fields.Int("num_attention_heads", 1, kNumHeadsMax);
  config->num_kv_heads = defaults.num_kv_heads ? fields.IntOr("num_key_value_heads", 1,
                                                              kNumHeadsMax, config->num_heads)
                                               : fields.Int("num_key_value_heads", 1, kNumHeadsMax);
  if (defaults.head_dim && !fields.Has("head_dim")) {
    config->head_dim = DerivedHeadDim(fields, *config);
  } else if (defaults.usual_head_dim > 0) {
    config->head_dim = fields.IntOr("head_dim", 2, kHeadDimMax, defaults.usual_head_dim);
  } else {
    config->head_dim = fields.Int("head_dim", 2, kHeadDimMax);
  }
  config->vocab_size = fields.Int("vocab_size", 1, kVocabSizeMax);
  config->max_position_embeddings = fields.Int("max_position_embeddings", 1, kContextMax);
}

// Whether a window is written down that holds the whole context: it never slides.
bool HoldsContext(ConfigFields& fields, const ModelConfig& config) {
  const int64_t window = fields.IntOr("sliding_window", 0, INT32_MAX, 0);
  return window >= config.max_position_embeddings;
}

// A window is often written down but switched off, or set for layers beyond the last, or as long as
// the context: all of these are full attention.
void RefuseSlidingWindow(ConfigFields& fields, const ModelConfig& config) {
  const bool used = fields.BoolOr("use_sliding_window", false) && fields.Has("sliding_window") &&
                    !HoldsContext(fields, config);
  const int64_t first = fields.IntOr("max_window_layers", 0, INT32_MAX, 0);
  if (used && first < config.num_layers) {
    fields.Unsupported(absl::StrCat("use_sliding_window true is not supported (layers from ", first,
                                    " on); supported: full attention"));
  }
}

void RefuseOtherLayerTypes(ConfigFields& fields, const ModelConfig& config) {
  const nlohmann::json& root = fields.object();
  const auto at = root.find("layer_types");
  if (at == root.end() || at->is_null()) return;
  if (!at->is_array()) return fields.Invalid("layer_types must be a list");
  for (const auto& type : *at) {
    if (!type.is_string()) return fields.Invalid("layer_types must be a list of strings");
    if (type == "sliding_attention" && HoldsContext(fields, config)) continue;
    if (type != kFullAttention) {
      return fields.Unsupported(absl::StrCat("layer_types ", Quoted(type.get<std::string>()),
                                             " is not supported; supported: full_attention"));
    }
  }
}

// Dual chunk attention (Qwen2.5-1M) is the usual one up to its first chunk: so much is the context
// here. Its longer contexts are not supported.
void KeepToFirstChunk(ConfigFields& fields, ModelConfig* config) {
  const nlohmann::json* chunks = fields.Object("dual_chunk_attention_config");
  if (chunks == nullptr) return;
  ConfigFields dual(*chunks, absl::StrCat(fields.prefix(), ": dual_chunk_attention_config"));
  const int64_t chunk = dual.Int("chunk_size", 1, kContextMax);
  const int64_t local = dual.IntOr("local_size", 0, kContextMax, 0);
  if (dual.status().ok() && local >= chunk) dual.Invalid("local_size is not below chunk_size");
  fields.Adopt(dual.status());
  if (dual.status().ok()) {
    config->max_position_embeddings = std::min(config->max_position_embeddings, chunk - local);
  }
}

}  // namespace

void ReadDType(ConfigFields& fields, ModelConfig* config, std::string_view otherwise) {
  const char* name = fields.Has("dtype") ? "dtype" : "torch_dtype";
  config->says_dtype = fields.Has(name) || !otherwise.empty();
  if (!config->says_dtype) return;
  const std::string text = fields.TextOr(name, std::string(otherwise));
  if (text == "bfloat16") {
    config->dtype = DType::kBF16;
  } else if (text == "float16") {
    config->dtype = DType::kF16;
  } else if (text == "float32") {
    config->dtype = DType::kF32;
  } else {
    fields.Unsupported(absl::StrCat(name, " ", Quoted(text),
                                    " is not supported; supported: bfloat16, float16, float32"));
  }
  if (fields.TextOr("torch_dtype", text) != text) {
    fields.Invalid("dtype and torch_dtype differ");
  }
}

void CheckHeads(ConfigFields& fields, const ModelConfig& config) {
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.Invalid(absl::StrCat("num_key_value_heads ", config.num_kv_heads,
                                " does not divide num_attention_heads ", config.num_heads));
  }
  if (config.head_dim % 2 != 0) {
    fields.Invalid(
        absl::StrCat("head_dim ", config.head_dim, " is odd: rotary embedding turns pairs"));
  }
}

void ReadAttentionBias(ConfigFields& fields, ModelConfig* config) {
  config->attention_bias = fields.BoolOr("attention_bias", false);
  config->attention_output_bias = config->attention_bias;
}

void ReadDecoderConfig(ConfigFields& fields, ModelConfig* config, const DecoderDefaults& defaults) {
  const std::string activation = fields.Text("hidden_act");
  if (activation != "silu") {
    fields.Unsupported(
        absl::StrCat("hidden_act ", Quoted(activation), " is not supported; supported: silu"));
  }
  ReadSizes(fields, config, defaults);
  CheckHeads(fields, *config);
  ReadRope(fields, config);
  KeepToFirstChunk(fields, config);
  RefuseSlidingWindow(fields, *config);
  RefuseOtherLayerTypes(fields, *config);
  config->rms_norm_eps =
      static_cast<float>(fields.Number("rms_norm_eps", kNormEpsilonMin, kNormEpsilonMax));
  config->tie_word_embeddings = fields.BoolOr("tie_word_embeddings", false);
  ReadDType(fields, config, "");
  config->eos_token_ids = fields.Ids("eos_token_id", 0, config->vocab_size - 1, kEosTokensMax);
}

}  // namespace tutti::model
