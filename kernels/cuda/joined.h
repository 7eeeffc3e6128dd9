// Sequences of row-wise operators as one kernel each (kernels/joined_operators.h): with few rows
// most of a kernel's time is start and end, with many it is reading and writing again what the
// kernel before wrote. Every number goes through the same operations in the same order as in rows.h
// and product.h.
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/packed_target.h"

namespace tutti::kernels::cuda {

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
// Whether rows may be many, and packed.wide: memory that is read and written by 16 bytes, a target
// that is not scaled, of one leaf, and a row that fits a block twice.
bool TakesManyRows(const AddNormArgs& args);
// REQUIRES: FitsAddNorm; TakesManyRows where packed.wide is set
void LaunchAddNorm(const AddNormArgs& args, Launcher* launcher);

// packed = silu(gate_up[:, i]) * gate_up[:, n + i], rounded.   REQUIRES: packed.rows is set; f16
// rows are not wide
struct SiluPackArgs {
  const float* gate_up = nullptr;  // [rows, 2 n]
  int64_t stride = 0;
  int64_t rows = 0;
  PackedTarget packed;
};
void LaunchSiluPack(const SiluPackArgs& args, Launcher* launcher);

// Bias, norm and rotary embedding of queries and keys; keys and values into the cache.
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
// Whether there is a kernel for many rows of such heads.
bool TurnsManyRows(int32_t head_dim, int32_t padded_dim);
void LaunchTurn(const TurnArgs& args, Launcher* launcher);

}  // namespace tutti::kernels::cuda
