// The pairs of a warpgroup of attention_hopper.cu: their queries, and where their results go.
#pragma once

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/attention_hopper_ring.h"
#include "kernels/cuda/number_formats.h"

namespace tutti::kernels::cuda {

struct GroupPairs {
  int32_t head;               // of the cache
  int32_t begin, end;         // of the sequence's pairs; begin >= end: none
  int32_t smallest, largest;  // positions
};

TUTTI_DEVICE GroupPairs PairsOfGroup(const AttentionItem& item, int32_t group, int32_t head,
                                     int index) {
  GroupPairs pairs;
  pairs.head = head;
  pairs.begin = item.pair_begin + index * kGroupPairs;
  pairs.end = pairs.begin + kGroupPairs < item.pair_end ? pairs.begin + kGroupPairs : item.pair_end;
  pairs.smallest = item.first_position + pairs.begin / group;
  pairs.largest = item.first_position + (pairs.end - 1) / group;
  return pairs;
}

// Where the result of a pair begins: in args.packed.rows, or in args.out.
TUTTI_DEVICE int64_t TargetOfPair(const AttentionArgs& args, int64_t row, int64_t head) {
  const auto k = static_cast<int32_t>(head * args.head_dim);
  if (args.packed.rows == nullptr) return row * args.out_stride + k;
  return PackedRowIndex(row, PackedK(args.packed.leaves, k), Chunks(args.packed.leaves),
                        args.packed.pieces);
}

TUTTI_DEVICE bool IsAligned(const void* rows, int64_t stride) {
  return (reinterpret_cast<uintptr_t>(rows) | static_cast<uintptr_t>(stride * 4)) % 16 == 0;
}

// Eight numbers of each chunk of a row.
template <int kChunks>
TUTTI_DEVICE void LoadChunks(const float* from, bool aligned, float (&q)[kChunks][8]) {
  if (aligned) {
    TUTTI_UNROLL
    for (int i = 0; i < 2 * kChunks; ++i) {
      const Floats four = *reinterpret_cast<const Floats*>(from + i / 2 * kChunkK + i % 2 * 4);
      TUTTI_UNROLL
      for (int j = 0; j < 4; ++j) q[i / 2][i % 2 * 4 + j] = four.x[j];
    }
    return;
  }
  TUTTI_KEEP_LOOP
  for (int i = 0; i < 8; ++i) {
    TUTTI_UNROLL
    for (int c = 0; c < kChunks; ++c) {
      const float x = from[c * kChunkK + i];
      TUTTI_UNROLL
      for (int j = 0; j < 8; ++j) q[c][j] = i == j ? x : q[c][j];
    }
  }
}

// Queries, rounded, as WideActivationIndex has 64 rows; and what is known of each pair.
template <bool kBf16, class Shape>
TUTTI_DEVICE void PrepareQueries(const AttentionArgs& args, const AttentionItem& item,
                                 const GroupPairs& pairs, int warp, char* queries,
                                 GroupMemory* memory) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_KEEP_LOOP
  for (int i = 0; i < kPairTiles / kGroupWarps; ++i) {
    const int at = (kGroupWarps * i + warp) * kPieceRows + g;
    const int32_t pair = pairs.begin + at;
    const int64_t row = item.first_row + pair / args.group;
    const int64_t head = pairs.head * args.group + pair % args.group;
    const float* const from = args.q + row * args.q_stride + head * Shape::kDim + t * (kChunkK / 4);
    auto* const to =
        reinterpret_cast<uint32_t*>(queries + at / kPieceRows * (kPieceRows * kChunkK * 2)) +
        Lane();
    float q[Shape::kDim / kChunkK][8] = {};
    if (pair < pairs.end) LoadChunks(from, IsAligned(args.q, args.q_stride), q);
    TUTTI_UNROLL
    for (int c = 0; c < Shape::kDim / kChunkK; ++c) {
      TUTTI_UNROLL
      for (int w = 0; w < 4; ++w) {
        to[c * (Shape::kQueryChunkBytes / 4) + w * kWarp] =
            RoundedPair<kBf16>(q[c][2 * w], q[c][2 * w + 1]);
      }
    }
    if (t == 0) {
      memory->position[at] = pair < pairs.end ? item.first_position + pair / args.group : -1;
      memory->target[at] = pair < pairs.end ? TargetOfPair(args, row, head) : 0;
    }
  }
}

// The pair of number i of the scores or values that a thread has of a matrix.
TUTTI_DEVICE int ColumnOf(int i) { return i / 4 * kPieceRows + 2 * (Lane() % 4) + i % 2; }

// Place of a value in `results` of ShareResults: what a warp writes, and what it reads, is spread
// over all banks.
template <class Shape>
TUTTI_DEVICE int ResultPlace(int pair, int d) {
  return pair * Shape::kDim + (d ^ pair / 2 % 4 * 8);
}
template <class Shape>
TUTTI_DEVICE void ShareResults(int warp, const float (&values)[Shape::kDimTiles][kGroupPairs / 2],
                               float* results) {
  static_assert(kGroupPairs * Shape::kDim * 4 <= Shape::kQueryBytes + Shape::kWeightBytes);
  TUTTI_UNROLL
  for (int i = 0; i < kGroupPairs / 2; ++i) {
    TUTTI_UNROLL
    for (int tile = 0; tile < Shape::kDimTiles; ++tile) {
      const int d = tile * kWgmmaOut + 16 * warp + 8 * (i / 2 % 2) + Lane() / 4;
      results[ResultPlace<Shape>(ColumnOf(i), d)] = values[tile][i];
    }
  }
}

// By few instructions: a block runs them once, so that they come from far.
template <class Shape>
TUTTI_DEVICE void StoreResults(const AttentionArgs& args, const GroupMemory& memory,
                               const float* results) {
  constexpr int kFours = Shape::kDim / 4;
  const bool aligned = args.packed.rows == nullptr && IsAligned(args.out, args.out_stride);
  TUTTI_KEEP_LOOP
  for (int i = ThreadIndex() % kWarpgroup; i < kGroupPairs * kFours; i += kWarpgroup) {
    const int pair = i / kFours, d = i % kFours * 4;
    if (memory.position[pair] < 0) continue;
    const float sum = memory.sum[pair];
    const int64_t target = memory.target[pair];
    Floats four = *reinterpret_cast<const Floats*>(results + ResultPlace<Shape>(pair, d));
    TUTTI_UNROLL
    for (float& x : four.x) x /= sum;
    if (aligned) {
      *reinterpret_cast<Floats*>(args.out + target + d) = four;
      continue;
    }
    TUTTI_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (args.packed.rows == nullptr) {
        args.out[target + d + j] = four.x[j];
      } else {
        args.packed.rows[target + PackedRowOffset(d + j, args.packed.pieces)] = ToBf16(four.x[j]);
      }
    }
  }
}

}  // namespace tutti::kernels::cuda
