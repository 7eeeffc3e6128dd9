// Arguments of the kernels of attention.h.
#pragma once

#include "base/dtype.h"
#include "kernels/cuda/joined.h"
#include "kernels/cuda/layout.h"

namespace tutti::kernels::cuda {

// The work of one block, for each KV head: pairs [pair_begin, pair_end) of a sequence, over tiles
// [tile_begin, tile_end). Pair p is the sequence's row p / group of this step and query head p %
// group of the KV head. No pairs: nothing to do.
struct alignas(16) AttentionItem {
  int32_t first_row = 0;       // of the sequence in this step
  int32_t first_position = 0;  // of that row
  int32_t block_begin = 0;     // of the sequence in `blocks`
  int32_t pair_begin = 0, pair_end = 0;
  int32_t tile_begin = 0, tile_end = 0;
  int32_t record = -1;  // of a tile computed apart; -1: the block folds and writes the result
};

// Pairs whose tiles were computed apart. No pairs: nothing to do.
struct FoldItem {
  int32_t first_row = 0;
  int32_t first_position = 0;
  int32_t pair_begin = 0, pair_end = 0;
  int32_t record = 0;  // of tile 0; the others follow
};

struct AttentionArgs {
  const float* q = nullptr;  // [rows, heads * head_dim]
  int64_t q_stride = 0;
  float* out = nullptr;  // [rows, heads * head_dim]
  int64_t out_stride = 0;
  PackedTarget packed;  // set: bf16 rows go there instead of to `out`; no leaf ends inside a head
  const void* cache = nullptr;
  KvLayout layout;
  int32_t head_dim = 0;
  int32_t group = 1;  // query heads of a KV head
  float scale = 1;
  int32_t fold_pairs = 0;  // the most that a fold has
  const int32_t* blocks = nullptr;
  const AttentionItem* items = nullptr;
  const FoldItem* folds = nullptr;
  int32_t item_count = 0;
  int32_t fold_count = 0;
  float* record_values = nullptr;  // [records][kv heads][16 pairs][dim]
  float* record_sums = nullptr;    // [records][kv heads][16 pairs][largest score, sum of weights]
};

struct PlainAttentionArgs {
  const float* q = nullptr;
  int64_t q_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  const float* cache = nullptr;
  KvLayout layout;
  int32_t rows = 0;
  int32_t heads = 0;
  int32_t group = 1;
  float scale = 1;
  const int32_t* blocks = nullptr;
  const int32_t* position = nullptr;     // [rows]
  const int32_t* block_begin = nullptr;  // [rows]
};

struct WriteKvArgs {
  const float* k = nullptr;  // [rows, kv_heads * head_dim]
  const float* v = nullptr;
  int64_t k_stride = 0, v_stride = 0;
  void* cache = nullptr;
  KvLayout layout;
  int32_t head_dim = 0;
  int32_t rows = 0;
  DType type = DType::kBF16;
  uint8_t gap[7] = {};
  const int32_t* slot = nullptr;  // [rows]: block * block_size + slot in the block
};

}  // namespace tutti::kernels::cuda
