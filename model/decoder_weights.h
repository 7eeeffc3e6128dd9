// The tensors of Llama-shaped families: the names that Llama, Qwen2 and Qwen3 share, and room for
// the additions of each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "model/weight_rule.h"

namespace tutti::model {

inline constexpr std::array<WeightRule, 0> kNoWeights = {};

inline constexpr std::array kDecoderInputs = {
    WeightRule{Role::kEmbedding, "model.embed_tokens.weight", Width::kVocab, Width::kHidden,
               SplitAxis::kOut, Owner::kFirstStage},
    WeightRule{Role::kInputNorm, "model.layers.{}.input_layernorm.weight", Width::kHidden},
    WeightRule{Role::kQuery, "model.layers.{}.self_attn.q_proj.weight", Width::kQuery,
               Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kKey, "model.layers.{}.self_attn.k_proj.weight", Width::kKeyValue,
               Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kValue, "model.layers.{}.self_attn.v_proj.weight", Width::kKeyValue,
               Width::kHidden, SplitAxis::kOut},
};

inline constexpr std::array kDecoderBiases = {
    WeightRule{Role::kQueryBias, "model.layers.{}.self_attn.q_proj.bias", Width::kQuery,
               Width::kNone, SplitAxis::kOut},
    WeightRule{Role::kKeyBias, "model.layers.{}.self_attn.k_proj.bias", Width::kKeyValue,
               Width::kNone, SplitAxis::kOut},
    WeightRule{Role::kValueBias, "model.layers.{}.self_attn.v_proj.bias", Width::kKeyValue,
               Width::kNone, SplitAxis::kOut},
};

// Qwen3's, of every query and key head.
inline constexpr std::array kDecoderHeadNorms = {
    WeightRule{Role::kQueryNorm, "model.layers.{}.self_attn.q_norm.weight", Width::kHeadDim},
    WeightRule{Role::kKeyNorm, "model.layers.{}.self_attn.k_norm.weight", Width::kHeadDim},
};

inline constexpr std::array kDecoderBetween = {
    WeightRule{Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj.weight", Width::kHidden,
               Width::kQuery, SplitAxis::kIn},
    WeightRule{Role::kOutputBias, "model.layers.{}.self_attn.o_proj.bias", Width::kHidden},
    WeightRule{Role::kPostAttentionNorm, "model.layers.{}.post_attention_layernorm.weight",
               Width::kHidden},
};

inline constexpr std::array kDecoderMlp = {
    WeightRule{Role::kGate, "model.layers.{}.mlp.gate_proj.weight", Width::kIntermediate,
               Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kUp, "model.layers.{}.mlp.up_proj.weight", Width::kIntermediate,
               Width::kHidden, SplitAxis::kOut},
    WeightRule{Role::kGateBias, "model.layers.{}.mlp.gate_proj.bias", Width::kIntermediate,
               Width::kNone, SplitAxis::kOut},
    WeightRule{Role::kUpBias, "model.layers.{}.mlp.up_proj.bias", Width::kIntermediate,
               Width::kNone, SplitAxis::kOut},
    WeightRule{Role::kDown, "model.layers.{}.mlp.down_proj.weight", Width::kHidden,
               Width::kIntermediate, SplitAxis::kIn},
    WeightRule{Role::kDownBias, "model.layers.{}.mlp.down_proj.bias", Width::kHidden},
};

inline constexpr std::array kDecoderOutputs = {
    WeightRule{Role::kFinalNorm, "model.norm.weight", Width::kHidden, Width::kNone,
               SplitAxis::kNone, Owner::kLastStage},
    WeightRule{Role::kHead, "lm_head.weight", Width::kVocab, Width::kHidden, SplitAxis::kOut,
               Owner::kLastStage},
};

// A whole table: the family's additions to attention, and to the MLP. It has every bias; a model
// that has not switches them off.
template <size_t kAttention, size_t kMlp>
constexpr auto DecoderWeights(const std::array<WeightRule, kAttention>& attention,
                              const std::array<WeightRule, kMlp>& mlp) {
  std::array<WeightRule, kDecoderInputs.size() + kDecoderBiases.size() + kAttention +
                             kDecoderBetween.size() + kDecoderMlp.size() + kMlp +
                             kDecoderOutputs.size()>
      table = {};
  auto to = std::copy(kDecoderInputs.begin(), kDecoderInputs.end(), table.begin());
  to = std::copy(kDecoderBiases.begin(), kDecoderBiases.end(), to);
  to = std::copy(attention.begin(), attention.end(), to);
  to = std::copy(kDecoderBetween.begin(), kDecoderBetween.end(), to);
  to = std::copy(kDecoderMlp.begin(), kDecoderMlp.end(), to);
  to = std::copy(mlp.begin(), mlp.end(), to);
  std::copy(kDecoderOutputs.begin(), kDecoderOutputs.end(), to);
  return table;
}

}  // namespace tutti::model
