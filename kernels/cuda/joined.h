// Sequences of row-wise operators as one kernel each (kernels/joined_operators.h): for steps of few
// rows, whose kernels are so short that most of their time is start and end. Every number goes
// through the same operations in the same order as in rows.h and product.h.
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// Rows on their way into a product, as PackRowsArgs of packing.h leaves them.
struct PackedTarget {
  uint16_t* rows = nullptr;  // ActivationIndex; nullptr: f32 rows are wanted instead
  float* scale = nullptr;    // f16 only: ScaleIndex
  LeafMap leaves;            // of the product's weight
  int32_t bf16 = 1;
};

// residual = round(residual + delta), then its norm. A block per row, which stays in shared memory.
struct AddNormArgs {
  float* residual = nullptr;  // [rows, cols]
  int64_t residual_stride = 0;
  // [leaves][rows, cols]: the leaves of a product are added up first. No leaves: nothing is added.
  const float* delta = nullptr;
  int64_t delta_stride = 0;
  int64_t leaf_stride = 0;
  const float* norm = nullptr;  // [cols]; nullptr: no norm
  float* out = nullptr;         // [rows, cols] f32, without a packed target; may be `delta`
  int64_t out_stride = 0;
  int64_t rows = 0, cols = 0;
  PackedTarget packed;
  float epsilon = 0;
  int32_t leaves = 0;
  DType round_to = DType::kF32;
  uint8_t gap[7] = {};
};
// Whether a row fits a block.
bool FitsAddNorm(int64_t cols);
// REQUIRES: FitsAddNorm
void LaunchAddNorm(const AddNormArgs& args, Launcher* launcher);

// packed = silu(gate_up[:, i]) * gate_up[:, n + i], rounded.   REQUIRES: packed.rows is set
struct SiluPackArgs {
  const float* gate_up = nullptr;  // [rows, 2 n]
  int64_t stride = 0;
  int64_t rows = 0;
  PackedTarget packed;
};
void LaunchSiluPack(const SiluPackArgs& args, Launcher* launcher);

// Bias, norm and rotary embedding of queries and keys; keys and values into the cache. A warp per
// row and head.
struct TurnArgs {
  float* qkv = nullptr;  // [rows, (heads + 2 kv_heads) * head_dim]; only the queries are written
  int64_t stride = 0;
  const float* bias = nullptr;        // of a row of qkv, or nullptr
  const float* query_norm = nullptr;  // [head_dim], or nullptr
  const float* key_norm = nullptr;
  const int32_t* position = nullptr;         // [rows]
  const float* inverse_frequency = nullptr;  // [head_dim / 2]
  void* cache = nullptr;
  const int32_t* slot = nullptr;  // [rows], as in WriteKvArgs
  KvLayout layout;
  int32_t heads = 0;  // of queries
  int32_t head_dim = 0;
  int32_t rows = 0;
  float epsilon = 0;
  DType type = DType::kBF16;  // of the cache
  uint8_t gap[7] = {};
};
void LaunchTurn(const TurnArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
