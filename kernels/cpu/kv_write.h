// Storing keys and values in the layout of kv_layout.h.
#pragma once

#include "kernels/backend.h"

namespace tutti::kernels::cpu {

// One KV head of every row, in the order of rows.   k, v [rows, kv_heads * head_dim] f32
void WriteKvHead(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                 const KvLayer& cache, int64_t head);

}  // namespace tutti::kernels::cpu
