// Work space of a shard: what its largest step needs besides weights and KV cache. Placement
// promises with it, the worker's transformer allocates it.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/model_config.h"

namespace tutti {

// Rows of a step whose logits are computed at a time; further ones take another turn. The rest of
// the step's memory does not depend on the vocabulary, so this keeps the head's share small: 16
// rows of 151,936 f32 logits are 9.7 MB.
inline constexpr int64_t kWorkSpaceLogitRows = 16;

// All rows are f32. Living at once in a layer: residual, its norm, what the layer adds; the widest
// of query-key-value and gate-up; the widest of what goes into the attention's output and into MLP
// down. The last stage has logits, their input, and one row of adjusted logits.
inline int64_t WorkSpaceBytes(const ModelConfig& config, bool has_head, int64_t max_batch_tokens,
                              int64_t max_sequences) {
  const int64_t wide =
      std::max(config.q_width() + 2 * config.kv_width(), 2 * config.intermediate_size);
  const int64_t narrow = std::max(config.q_width(), config.intermediate_size);
  int64_t floats = max_batch_tokens * (3 * config.hidden_size + wide + narrow);
  if (has_head) {
    const int64_t rows = std::min({kWorkSpaceLogitRows, max_sequences, max_batch_tokens});
    floats += rows * (config.hidden_size + config.vocab_size) + config.vocab_size;
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

// A backend may pad the values of a head to a whole number of vector registers; keys are not
// padded. No published model has heads that this would touch.
inline constexpr int64_t kValueMultiple = 16;

// Keys and values of one token in one layer, all heads, as they lie in the cache.
inline int64_t ResidentKvBytesPerToken(const ModelConfig& config) {
  const int64_t values = (config.head_dim + kValueMultiple - 1) / kValueMultiple * kValueMultiple;
  return config.num_kv_heads * (config.head_dim + values) * DTypeBytes(config.dtype);
}

}  // namespace tutti
