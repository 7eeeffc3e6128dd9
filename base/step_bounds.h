// The largest steps of a shard, in numbers that kernels and plans understand alike.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tutti {

// Shape of the KV cache of one shard, the same for each of its layers.
struct KvShape {
  DType dtype = DType::kBF16;
  int64_t block_size = 16;  // slots per block, a multiple of 16
  int64_t num_blocks = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;  // even
};

// The largest steps that operators will be called with.
struct StepBounds {
  int64_t rows = 0;       // of activations
  int64_t sequences = 0;  // of a batch
  int64_t positions = 0;  // of a sequence
  int64_t query_heads = 0;
  KvShape kv;
  int64_t vocab = 0;              // of logits, 0 without
  int64_t experts_per_token = 0;  // 0 without
  int64_t carried_values = 0;     // the most that one Convert carries between host and device
};

}  // namespace tutti
