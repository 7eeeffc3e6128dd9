// The model families we run. A family is data: a reader for its config.json and a table of its
// tensors.
//
// To add one: a file family_<name>.cc with a ModelFamily, and a row in family.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/config_fields.h"
#include "model/model_config.h"
#include "model/weight_rule.h"

namespace tutti::model {

struct ModelFamily {
  std::string_view architecture;  // as in "architectures" of config.json
  std::string_view model_type;
  // Fills everything but architecture and model_type. Errors collect in `fields`.
  void (*read_config)(ConfigFields& fields, ModelConfig* config);
  std::span<const WeightRule> weights;
};

// Null when we do not run that architecture.
const ModelFamily* FindFamily(std::string_view architecture);

// "Qwen3ForCausalLM, ..." for errors.
std::string SupportedArchitectures();

// The fields that a Llama-shaped family's config.json may leave out.
struct DecoderDefaults {
  bool num_kv_heads = false;   // as many as heads
  bool head_dim = false;       // hidden_size / num_attention_heads
  int64_t usual_head_dim = 0;  // where not 0 and the file does not say
};

// The one type of layers that there is here.
inline constexpr char kFullAttention[] = "full_attention";

// Reads the fields that the configurations of Llama-shaped families share: sizes, rotary embedding,
// dtype, end tokens. Refuses values that none of them runs here: other activations, sliding windows
// shorter than the context, unknown or partial rotary embedding. Of dual chunk attention the first
// chunk is the context. Leaves attention_bias, qk_norm and experts alone.
void ReadDecoderConfig(ConfigFields& fields, ModelConfig* config,
                       const DecoderDefaults& defaults = {});

// "rope_theta" with "rope_scaling" or "rope_parameters": everything of config->rope, and the longer
// context of a scaled one.  REQUIRES: head_dim and max_position_embeddings are read
void ReadRope(ConfigFields& fields, ModelConfig* config);

// "attention_bias": one of queries, keys, values and of the attention's output.
void ReadAttentionBias(ConfigFields& fields, ModelConfig* config);

// The type to compute in: "dtype" since transformers 5, "torch_dtype" before. `otherwise`: for a
// file that does not say; empty: says_dtype becomes false.
void ReadDType(ConfigFields& fields, ModelConfig* config, std::string_view otherwise);

// The rest of num_kv_heads, head_dim and rotary_dim, which all families need.
void CheckHeads(ConfigFields& fields, const ModelConfig& config);

// One per file family_*.cc.
extern const ModelFamily kQwen3Family;
extern const ModelFamily kQwen3MoeFamily;
extern const ModelFamily kQwen2Family;
extern const ModelFamily kQwen1Family;
extern const ModelFamily kChatGlm3Family;
extern const ModelFamily kLlamaFamily;

}  // namespace tutti::model
