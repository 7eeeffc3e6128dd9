// A model small enough to think about, for tests that compute nothing.
#pragma once

#include "model/model_config.h"

namespace tutti::tests {

// `layers` layers of 16 kB, 128 bytes of K/V per token and layer, `vocab` tokens.
inline model::ModelConfig TinyModel(int64_t layers, int64_t vocab = 1000) {
  model::ModelConfig model;
  model.architecture = "Qwen3ForCausalLM";
  model.model_type = "qwen3";
  model.hidden_size = 64;
  model.intermediate_size = 128;
  model.num_layers = layers;
  model.num_heads = 4;
  model.num_kv_heads = 2;
  model.head_dim = 16;
  model.vocab_size = vocab;
  model.max_position_embeddings = 4096;
  model.rms_norm_eps = 1e-6f;
  model.rope.theta = 1e6;
  model.rope.rotary_dim = 16;
  model.tie_word_embeddings = true;
  model.qk_norm = true;
  return model;
}

}  // namespace tutti::tests
