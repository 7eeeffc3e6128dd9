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

TUTTI_DEVICE void LoadEight(const float* from, bool aligned, float (&q)[8]) {
  if (!aligned) {
    TUTTI_UNROLL
    for (int i = 0; i < 8; ++i) q[i] = from[i];
    return;
  }
  TUTTI_UNROLL
  for (int i = 0; i < 2; ++i) {
    const Floats four = reinterpret_cast<const Floats*>(from)[i];
    TUTTI_UNROLL
    for (int j = 0; j < 4; ++j) q[4 * i + j] = four.x[j];
  }
}

// Queries, rounded, as WideActivationIndex has 64 rows; and what is known of each pair.
template <bool kBf16, class Shape>
TUTTI_DEVICE void PrepareQueries(const AttentionArgs& args, const AttentionItem& item,
                                 const GroupPairs& pairs, int warp, char* queries,
                                 GroupMemory* memory) {
  const int g = Lane() / 4, t = Lane() % 4;
  const bool aligned =
      (reinterpret_cast<uintptr_t>(args.q) | static_cast<uintptr_t>(args.q_stride * 4)) % 16 == 0;
  TUTTI_UNROLL
  for (int i = 0; i < kPairTiles / kGroupWarps; ++i) {
    const int at = (kGroupWarps * i + warp) * kPieceRows + g;
    const int32_t pair = pairs.begin + at;
    const int64_t row = item.first_row + pair / args.group;
    const int64_t head = pairs.head * args.group + pair % args.group;
    const float* const from = args.q + row * args.q_stride + head * Shape::kDim + t * (kChunkK / 4);
    auto* const to =
        reinterpret_cast<uint32_t*>(queries + at / kPieceRows * (kPieceRows * kChunkK * 2)) +
        Lane();
    TUTTI_UNROLL
    for (int c = 0; c < Shape::kDim / kChunkK; ++c) {
      float q[8] = {};
      if (pair < pairs.end) LoadEight(from + c * kChunkK, aligned, q);
      TUTTI_UNROLL
      for (int w = 0; w < 4; ++w) {
        to[c * (Shape::kQueryChunkBytes / 4) + w * kWarp] =
            RoundedPair<kBf16>(q[2 * w], q[2 * w + 1]);
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

// x / sum of each, as division rounds: by one reciprocal, whose quotients are corrected twice by
// their exact remainders, where these neither overflow nor underflow.
template <int kCount>
TUTTI_DEVICE void DivideEach(float sum, float (&x)[kCount]) {
  constexpr float kSmall = 0x1p-60f, kLarge = 0x1p60f;
  float least = kLarge, most = kSmall;
  TUTTI_UNROLL
  for (const float value : x) {
    least = fminf(least, fabsf(value));
    most = fmaxf(most, fabsf(value));
  }
  if (!(least >= kSmall && most <= kLarge && sum >= kSmall && sum <= kLarge)) {
    TUTTI_KEEP_LOOP
    for (int i = 0; i < kCount; ++i) {
      float value = 0;
      TUTTI_UNROLL
      for (int j = 0; j < kCount; ++j) value = i == j ? x[j] : value;
      value /= sum;
      TUTTI_UNROLL
      for (int j = 0; j < kCount; ++j) x[j] = i == j ? value : x[j];
    }
    return;
  }
  const float near = NearReciprocal(sum);
  const float reciprocal = FusedMultiplyAdd(FusedMultiplyAdd(-sum, near, 1), near, near);
  TUTTI_UNROLL
  for (float& value : x) {
    float quotient = value * reciprocal;
    TUTTI_UNROLL
    for (int i = 0; i < 2; ++i) {
      quotient = FusedMultiplyAdd(FusedMultiplyAdd(-sum, quotient, value), reciprocal, quotient);
    }
    value = quotient;
  }
}

template <class Shape>
TUTTI_DEVICE void StoreResult(const AttentionArgs& args, const GroupMemory& memory, int warp,
                              const float (&values)[Shape::kDimTiles][kGroupPairs / 2]) {
  TUTTI_UNROLL
  for (int i = 0; i < kGroupPairs / 4; ++i) {
    const int at = i / 2 * 4 + i % 2, pair = ColumnOf(at);
    if (memory.position[pair] < 0) continue;
    const int64_t target = memory.target[pair];
    float results[2 * Shape::kDimTiles];
    TUTTI_UNROLL
    for (int j = 0; j < 2 * Shape::kDimTiles; ++j) results[j] = values[j / 2][at + 2 * (j % 2)];
    DivideEach(memory.sum[pair], results);
    TUTTI_UNROLL
    for (int j = 0; j < 2 * Shape::kDimTiles; ++j) {
      const int d = j / 2 * kWgmmaOut + 16 * warp + 8 * (j % 2) + Lane() / 4;
      if (args.packed.rows == nullptr) {
        args.out[target + d] = results[j];
      } else {
        args.packed.rows[target + PackedRowOffset(d, args.packed.pieces)] = ToBf16(results[j]);
      }
    }
  }
}

}  // namespace tutti::kernels::cuda
