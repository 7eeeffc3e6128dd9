// Where the results of attention go: rows of f32, or packed for the product that comes next.
#pragma once

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/number_formats.h"

namespace tutti::kernels::cuda {

// Where the numbers of a row and query head go.
struct HeadTarget {
  float* out;  // nullptr: packed
  uint16_t* packed;
  int64_t row;
  int32_t first, end;  // packed k of the head; where the padding after it ends
  int32_t chunks, pieces;

  TUTTI_DEVICE void Store(int32_t d, float value) const {
    if (out != nullptr) {
      out[d] = value;
    } else {
      packed[PackedRowIndex(row, first + d, chunks, pieces)] = ToBf16(value);
    }
  }
};

TUTTI_DEVICE HeadTarget TargetOf(const AttentionArgs& args, int64_t row, int64_t head) {
  HeadTarget target = {};
  const auto k = static_cast<int32_t>(head * args.head_dim);
  if (args.packed.rows == nullptr) {
    target.out = args.out + row * args.out_stride + k;
    return target;
  }
  const LeafMap& leaves = args.packed.leaves;
  int32_t leaf = 0;
  while (k >= leaves.begin[leaf + 1]) ++leaf;
  target.packed = args.packed.rows;
  target.row = row;
  target.first = leaves.chunk[leaf] * kChunkK + (k - leaves.begin[leaf]);
  const bool last = k + args.head_dim == leaves.begin[leaf + 1];
  target.end = last ? leaves.chunk[leaf + 1] * kChunkK : target.first + args.head_dim;
  target.chunks = Chunks(leaves);
  target.pieces = args.packed.pieces;
  return target;
}

// Zeros behind the last head of a leaf, by `count` threads of which this is `index`.
TUTTI_DEVICE void StorePadding(const HeadTarget& target, int32_t head_dim, int index, int count) {
  if (target.out != nullptr) return;
  for (int32_t d = head_dim + index; target.first + d < target.end; d += count) target.Store(d, 0);
}

}  // namespace tutti::kernels::cuda
