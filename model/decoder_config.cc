// What the config.json of all Llama-shaped families has in common.
#include <optional>

#include "absl/strings/str_cat.h"
#include "model/family.h"
#include "model/json_document.h"
#include "model/limits.h"

namespace tutti {
namespace {

void ReadSizes(ConfigFields& fields, ModelConfig* config) {
  config->hidden_size = fields.Int("hidden_size", 1, kHiddenSizeMax);
  config->intermediate_size = fields.Int("intermediate_size", 1, kIntermediateSizeMax);
  config->num_layers = fields.Int("num_hidden_layers", 1, kNumLayersMax);
  config->num_heads = fields.Int("num_attention_heads", 1, kNumHeadsMax);
  config->num_kv_heads = fields.Int("num_key_value_heads", 1, kNumHeadsMax);
  config->head_dim = fields.Int("head_dim", 2, kHeadDimMax);
  config->vocab_size = fields.Int("vocab_size", 1, kVocabSizeMax);
  config->max_position_embeddings = fields.Int("max_position_embeddings", 1, kContextMax);
  if (config->num_heads % config->num_kv_heads != 0) {
    fields.Invalid(absl::StrCat("num_key_value_heads ", config->num_kv_heads,
                                " does not divide num_attention_heads ", config->num_heads));
  }
  if (config->head_dim % 2 != 0) {
    fields.Invalid(
        absl::StrCat("head_dim ", config->head_dim, " is odd: rotary embedding turns pairs"));
  }
}

// The type of the checkpoint's tensors: "dtype" since transformers 5, "torch_dtype" before.
void ReadDType(ConfigFields& fields, ModelConfig* config) {
  const char* name = fields.Has("dtype") ? "dtype" : "torch_dtype";
  const std::string text = fields.Text(name);
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

void RefuseScaledRope(ConfigFields& fields, const nlohmann::json& object, const char* name) {
  ConfigFields rope(object, absl::StrCat(fields.prefix(), ": ", name));
  for (const char* key : {"rope_type", "type"}) {
    const std::string type = rope.TextOr(key, "default");
    if (type != "default") {
      rope.Unsupported(absl::StrCat(key, " ", Quoted(type),
                                    " is not supported; supported: default (no scaling)"));
    }
  }
  if (rope.NumberOr("partial_rotary_factor", 0, 1, 1) != 1) {
    rope.Unsupported("partial_rotary_factor other than 1 is not supported");
  }
  fields.Adopt(rope.status());
}

// "rope_parameters" since transformers 5; "rope_theta" and "rope_scaling" before. A file may have
// both.
void ReadRope(ConfigFields& fields, ModelConfig* config) {
  if (const auto* scaling = fields.Object("rope_scaling")) {
    RefuseScaledRope(fields, *scaling, "rope_scaling");
  }
  if (fields.NumberOr("partial_rotary_factor", 0, 1, 1) != 1) {
    fields.Unsupported("partial_rotary_factor other than 1 is not supported");
  }
  std::optional<double> theta;
  if (const auto* parameters = fields.Object("rope_parameters")) {
    RefuseScaledRope(fields, *parameters, "rope_parameters");
    ConfigFields rope(*parameters, absl::StrCat(fields.prefix(), ": rope_parameters"));
    if (rope.Has("rope_theta")) theta = rope.Number("rope_theta", kRopeThetaMin, kRopeThetaMax);
    fields.Adopt(rope.status());
  }
  if (!theta.has_value() || fields.Has("rope_theta")) {
    const double outer = fields.Number("rope_theta", kRopeThetaMin, kRopeThetaMax);
    if (theta.value_or(outer) != outer) {
      fields.Invalid("rope_theta and rope_parameters.rope_theta differ");
    }
    theta = outer;
  }
  config->rope_theta = *theta;
}

// A window is often written down but switched off, or set for layers beyond the last: both are full
// attention.
void RefuseSlidingWindow(ConfigFields& fields, const ModelConfig& config) {
  const bool used = fields.BoolOr("use_sliding_window", false) && fields.Has("sliding_window");
  const int64_t first = fields.IntOr("max_window_layers", 0, INT32_MAX, 0);
  if (used && first < config.num_layers) {
    fields.Unsupported(absl::StrCat("use_sliding_window true is not supported (layers from ", first,
                                    " on); supported: full attention"));
  }
}

void RefuseOtherLayerTypes(ConfigFields& fields, const nlohmann::json& root) {
  const auto at = root.find("layer_types");
  if (at == root.end() || at->is_null()) return;
  if (!at->is_array()) return fields.Invalid("layer_types must be a list");
  for (const auto& type : *at) {
    if (!type.is_string()) return fields.Invalid("layer_types must be a list of strings");
    if (type != "full_attention") {
      return fields.Unsupported(absl::StrCat("layer_types ", Quoted(type.get<std::string>()),
                                             " is not supported; supported: full_attention"));
    }
  }
}

}  // namespace

void ReadDecoderConfig(ConfigFields& fields, ModelConfig* config) {
  const std::string activation = fields.Text("hidden_act");
  if (activation != "silu") {
    fields.Unsupported(
        absl::StrCat("hidden_act ", Quoted(activation), " is not supported; supported: silu"));
  }
  ReadSizes(fields, config);
  RefuseSlidingWindow(fields, *config);
  RefuseOtherLayerTypes(fields, fields.object());
  if (fields.Has("dual_chunk_attention_config")) {
    fields.Unsupported("dual_chunk_attention_config (dual chunk attention) is not supported");
  }
  ReadRope(fields, config);
  config->rms_norm_eps =
      static_cast<float>(fields.Number("rms_norm_eps", kNormEpsilonMin, kNormEpsilonMax));
  config->tie_word_embeddings = fields.BoolOr("tie_word_embeddings", false);
  ReadDType(fields, config);
  config->eos_token_ids = fields.Ids("eos_token_id", 0, config->vocab_size - 1, kEosTokensMax);
}

}  // namespace tutti
