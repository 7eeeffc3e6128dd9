// Storing keys and values in the layout of kv_layout.h.
#pragma once

#include "kernels/backend.h"

namespace tutti::kernels::cpu {

// KV heads [head_begin, head_end) of every row, in the order of rows.
//   k, v [rows, kv_heads * head_dim] f32
void WriteKvHeads(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                  const KvLayer& cache, int64_t head_begin, int64_t head_end);

}  // namespace tutti::kernels::cpu
