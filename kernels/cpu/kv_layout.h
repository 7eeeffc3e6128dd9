// Where keys and values lie in one layer's cache.
//
//   cache = [num_blocks][kv_heads][K of the block, V of the block]
//   K     = [block_size / 16][head_dim / 2] units of 16 slots by 2 consecutive d
//   V     = [block_size / 2][ceil(head_dim / 16)] units of 16 d by 2 consecutive slots
//
// with the units of weight_layout.h. So scores are a product whose columns are slots, summed over
// d, and outputs a product whose columns are d, summed over slots: attention runs on the matrix
// kernels' inner step, without transposing anything, and reads 16 slots of one head as one or two
// contiguous runs.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/weight_layout.h"

namespace tutti::kernels::cpu {

struct KvLayout {
  explicit KvLayout(const KvShape& shape)
      : unit_bytes(UnitBytes(shape.dtype)),
        key_group_bytes(shape.head_dim / 2 * unit_bytes),
        value_units((shape.head_dim + kUnitColumns - 1) / kUnitColumns),
        key_bytes(shape.block_size / kUnitColumns * key_group_bytes),
        head_bytes(key_bytes + shape.block_size / 2 * value_units * unit_bytes),
        block_bytes(shape.kv_heads * head_bytes) {}

  int64_t unit_bytes;
  int64_t key_group_bytes;  // the keys of 16 slots
  int64_t value_units;      // units across head_dim
  int64_t key_bytes;        // the keys of a block: where its values begin
  int64_t head_bytes;
  int64_t block_bytes;
};

}  // namespace tutti::kernels::cpu
