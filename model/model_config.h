// A model's hyper-parameters. They come from config.json and are checked once, where it is read
// (model/config_json.h), so that nothing behind it has to doubt a size.
//
// Threads: values and pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/quant_formats.h"
#include "model/weight_rule.h"

namespace tutti::model {

// How rotary embedding turns the queries and keys of a head. model/rotary.h makes frequencies of
// it.
struct RopeConfig {
  enum class Scaling : uint8_t {
    kNone,
    kLinear,      // every frequency divided by `factor`
    kLlama3,      // Llama 3.1: low frequencies divided, high ones kept, a ramp between
    kYarn,        // YaRN (Peng et al., 2023), static as HuggingFace and Qwen document it
    kDynamicNtk,  // Qwen (1): the base grows with the prompt's length beyond original_context
    kDynamic,     // HuggingFace's dynamic NTK: with the prompt's length, then with every token
  };
  double theta = 0;
  int64_t rotary_dim = 0;    // elements at the head's beginning that turn; even, <= head_dim
  bool interleaved = false;  // pairs (2 i, 2 i + 1); else (i, i + rotary_dim / 2)
  Scaling scaling = Scaling::kNone;
  double factor = 1;             // kLinear, kLlama3, kYarn, kDynamic; >= 1
  double low_freq_factor = 1;    // kLlama3
  double high_freq_factor = 4;   // kLlama3; > low_freq_factor
  double beta_fast = 32;         // kYarn
  double beta_slow = 1;          // kYarn
  bool truncate = true;          // kYarn: the ramp begins and ends at whole pairs
  double attention_factor = 1;   // kYarn: multiplies the turned elements
  int64_t original_context = 0;  // all others but kLinear: the length it was trained with
  bool operator==(const RopeConfig&) const = default;
};

// Every field lies within model/limits.h, so products of any three of the sizes below fit an
// int64_t.
struct ModelConfig {
  std::string architecture;  // "Qwen3ForCausalLM": names the row of model/family.h
  std::string model_type;    // "qwen3"

  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // of each branch of a dense MLP; unused with experts
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  // divides num_heads
  int64_t head_dim = 0;      // even; need not be hidden_size / num_heads
  int64_t vocab_size = 0;
  // The longest context, with the extension by a scaled rotary embedding.
  int64_t max_position_embeddings = 0;

  // Mixture of experts: a layer's MLP is `num_experts` small ones, of which each token takes some.
  // 0: one dense MLP in every layer.
  int64_t num_experts = 0;
  // Layers that have one dense MLP all the same, in ascending order; not all of them.
  std::vector<int32_t> dense_layers;
  int64_t experts_per_token = 0;
  int64_t expert_intermediate_size = 0;
  bool norm_topk_prob = false;  // the chosen experts' probabilities are divided by their sum
  // Not of the file but the operator's choice: ranks of a stage share out whole experts, not the
  // inner width of each. The bits are the same.
  bool whole_experts = false;

  float rms_norm_eps = 0;
  RopeConfig rope;
  // Queries at position p >= logn_length are multiplied by log(p + 1) / log(logn_length). 0: never.
  int64_t logn_length = 0;

  bool tie_word_embeddings = false;  // the head is the embedding matrix
  bool attention_bias = false;       // query, key and value projections have a bias
  bool attention_output_bias = false;
  bool mlp_bias = false;  // all three matrices of dense MLPs
  bool qk_norm = false;   // each query and key head is normalised before the rotary embedding

  // The type that weights are held and computed in. A checkpoint's tensors of another type are
  // converted where they are read.
  DType dtype = DType::kBF16;
  bool says_dtype = true;  // false: the file does not say, and `dtype` means nothing yet
  // The gate's activation is SiLU; any other is refused.

  // How matrices are quantised, by role and layer.
  QuantFormats quant;
  // Not of the file but the operator's choice: codes are made while the checkpoint is loaded.
  std::optional<QuantiseChoice> quantise;
  bool head_of_embedding = false;  // its codes are those of the embedding, or made of it

  // "eos_token_id" of config.json, used when generation_config.json has none. May be empty.
  std::vector<int32_t> eos_token_ids;

  // `layer`: -1 for a matrix that is not of a layer, here and below.
  bool is_quantised(Role role, int64_t layer) const { return quant.Find(role, layer) != nullptr; }
  // Whether rows become integers before they are multiplied by such matrices.
  bool rounds_rows(Role role, int64_t layer) const {
    const QuantConfig* const format = quant.Find(role, layer);
    return format != nullptr && format->quantises_activations;
  }
  // Whether the codes of such matrices are made of what the checkpoint has.
  bool makes_codes(Role role, int64_t layer) const {
    return quantise.has_value() && is_quantised(role, layer);
  }
  bool has_experts() const { return num_experts > 0; }
  bool has_experts(int64_t layer) const {
    return num_experts > 0 && !std::binary_search(dense_layers.begin(), dense_layers.end(), layer);
  }
  bool has_dense_mlp() const { return num_experts == 0 || !dense_layers.empty(); }
  // The residual stream is rounded to this type after every layer, and travels in it. The residual
  // of real f16 checkpoints grows beyond 65,504, where f16 ends, so theirs is not rounded
  // (docs/decisions/0015).
  DType residual_dtype() const { return dtype == DType::kF16 ? DType::kF32 : dtype; }
  int64_t q_width() const { return num_heads * head_dim; }
  int64_t kv_width() const { return num_kv_heads * head_dim; }
  // Keys and values of one token in `layers` layers, in `kv_dtype`, all heads.
  int64_t kv_bytes_per_token(int64_t layers, DType kv_dtype) const {
    return 2 * layers * kv_width() * DTypeBytes(kv_dtype);
  }
  int64_t kv_bytes_per_token(int64_t layers) const { return kv_bytes_per_token(layers, dtype); }
};

}  // namespace tutti::model
