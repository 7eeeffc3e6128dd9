// One tile of attention on tensor cores, step by step: bringing it into shared memory, scores,
// weights and weighted values. A warp has 16 pairs of a row and a query head.
#pragma once

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/number_formats.h"

namespace tutti::kernels::cuda {

// Of a tile.
inline constexpr int kTileUnits = kAttentionTile / kKvUnit;
inline constexpr int kKeyStages = 4;  // and as many of values
inline constexpr int kStageSlots = kAttentionTile / kKeyStages;

// The 16 pairs of one warp, two of which are this lane's: rows g and g + 8 of the instruction.
struct WarpPairs {
  int32_t begin, end;              // of the sequence's pairs; begin >= end: none
  int32_t smallest, largest;       // positions
  int32_t position[2] = {-1, -1};  // of this lane's pairs; -1: none
};

TUTTI_DEVICE WarpPairs PairsOfWarp(const AttentionItem& item, int group) {
  WarpPairs pairs;
  pairs.begin = item.pair_begin + WarpIndex() * kPairs;
  pairs.end = pairs.begin + kPairs < item.pair_end ? pairs.begin + kPairs : item.pair_end;
  pairs.smallest = item.first_position + pairs.begin / group;
  pairs.largest = item.first_position + (pairs.end - 1) / group;
  for (int i = 0; i < 2; ++i) {
    const int32_t pair = pairs.begin + Lane() / 4 + 8 * i;
    if (pair < pairs.end) pairs.position[i] = item.first_position + pair / group;
  }
  return pairs;
}

// Queries of the warp's pairs, rounded, as [dim / 32][16 pairs][32].
template <bool kBf16, int kDim>
TUTTI_DEVICE void LoadQueries(const AttentionArgs& args, const AttentionItem& item,
                              const WarpPairs& pairs, uint16_t* queries) {
  for (int i = Lane(); i < kPairs * kDim; i += kWarp) {
    const int32_t pair = pairs.begin + i / kDim, d = i % kDim;
    float value = 0;
    if (pair < pairs.end && d < args.head_dim) {
      const int64_t row = item.first_row + pair / args.group;
      const int64_t head = BlockY() * args.group + pair % args.group;
      value = args.q[row * args.q_stride + head * args.head_dim + d];
    }
    queries[d / 32 * (kPairs * 32) + i / kDim * 32 + d % 32] = To16<kBf16>(value);
  }
  SyncWarp();
}

// Copies stage `step` of the item's walk: four of keys, then four of values, for each tile.
template <int kDim>
TUTTI_DEVICE_CALL void FetchStage(const AttentionArgs& args, const AttentionItem& item,
                                  int32_t last, int step, char* stage) {
  constexpr int kUnitBytes = kKvUnit * kDim * 2;
  const int32_t tile = item.tile_begin + step / (2 * kKeyStages);
  const int part = step % kKeyStages;
  const bool value = step % (2 * kKeyStages) >= kKeyStages;
  // Keys: two whole units. Values: a quarter of each of the eight.
  const int piece_bytes = value ? kUnitBytes / kKeyStages : kUnitBytes;
  const int32_t first = tile * kAttentionTile + (value ? 0 : part * kStageSlots);
  const int copies = piece_bytes / 16;
  for (int i = ThreadIndex(); i < kStageSlots * kDim * 2 / 16; i += ThreadCount()) {
    const int32_t slot = first + i / copies * kKvUnit;
    const bool valid = slot <= last;
    const char* from = static_cast<const char*>(args.cache);
    if (valid) {
      const int32_t block = args.blocks[item.block_begin + slot / args.layout.block_size];
      const int64_t unit = KvUnitIndex(args.layout, block, slot % args.layout.block_size,
                                       static_cast<int32_t>(BlockY()), value);
      from += unit * 2 + (value ? part * piece_bytes : 0) + i % copies * 16;
    }
    CopyAsync16(stage + i * 16, from, valid);
  }
}

// Brings the item's first tile nearer, keys and values, before it may be read.
template <int kDim>
TUTTI_DEVICE void PrefetchTile(const AttentionArgs& args, const AttentionItem& item) {
  constexpr int kLineBytes = 128;
  constexpr int kLines = 2 * kKvUnit * kDim * 2 / kLineBytes;  // of a unit, keys and values
  const int32_t last = item.first_position + (item.pair_end - 1) / args.group;
  for (int i = ThreadIndex(); i < kTileUnits * kLines; i += ThreadCount()) {
    const int32_t slot = item.tile_begin * kAttentionTile + i / kLines * kKvUnit;
    if (slot > last) return;
    const int32_t block = args.blocks[item.block_begin + slot / args.layout.block_size];
    const int64_t unit = KvUnitIndex(args.layout, block, slot % args.layout.block_size,
                                     static_cast<int32_t>(BlockY()), false);
    PrefetchLine(static_cast<const char*>(args.cache) + unit * 2 + i % kLines * kLineBytes);
  }
}

// scores of 32 slots += queries * keys.
template <bool kBf16, int kDim>
TUTTI_DEVICE void AddScores(const uint16_t* queries, const char* stage, float (*scores)[4]) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_UNROLL
  for (int c = 0; c < kDim / 32; ++c) {
    const uint16_t* const from = queries + c * (kPairs * 32) + t * 8;
    const Words upper = *reinterpret_cast<const Words*>(from + g * 32);
    const Words lower = *reinterpret_cast<const Words*>(from + (g + 8) * 32);
    TUTTI_UNROLL
    for (int n = 0; n < 4; ++n) {
      const int at = n / 2 * (kKvUnit * kDim) + c * (kKvUnit * 32) + ScoreSlot(n % 2, g) * 32;
      const Words keys = *reinterpret_cast<const Words*>(stage + (at + t * 8) * 2);
      Mma<kBf16>(scores[n], {upper.w[0], lower.w[0], upper.w[1], lower.w[1]},
                 {keys.w[0], keys.w[1]});
      Mma<kBf16>(scores[n], {upper.w[2], lower.w[2], upper.w[3], lower.w[3]},
                 {keys.w[2], keys.w[3]});
    }
  }
}

// Scores of a tile to weights: softmax from nothing. weights[u] is the left operand of the
// instruction over unit u. largest and sum are of the lane's two pairs; the sum is of the rounded
// weights.
template <bool kBf16>
TUTTI_DEVICE void ScoresToWeights(float (&scores)[2 * kTileUnits][4], const WarpPairs& pairs,
                                  int32_t first_slot, float scale, float (&largest)[2],
                                  float (&sum)[2], uint32_t (&weights)[kTileUnits][4]) {
  const int t = Lane() % 4;
  largest[0] = largest[1] = MinusInfinity();
  sum[0] = sum[1] = 0;
  TUTTI_UNROLL
  for (int n = 0; n < 2 * kTileUnits; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int32_t slot = first_slot + n / 2 * kKvUnit + ScoreSlot(n % 2, 2 * t + i % 2);
      float& score = scores[n][i];
      score = slot <= pairs.position[i / 2] ? score * scale : MinusInfinity();
      largest[i / 2] = fmaxf(largest[i / 2], score);
    }
  }
  TUTTI_UNROLL
  for (int row = 0; row < 2; ++row) {
    largest[row] = fmaxf(largest[row], ShuffleXor(largest[row], 1));
    largest[row] = fmaxf(largest[row], ShuffleXor(largest[row], 2));
  }
  const float base[2] = {largest[0] == MinusInfinity() ? 0 : largest[0],
                         largest[1] == MinusInfinity() ? 0 : largest[1]};
  TUTTI_UNROLL
  for (int n = 0; n < 2 * kTileUnits; ++n) {
    uint16_t rounded[4];
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      rounded[i] = To16<kBf16>(Exp2(scores[n][i] - base[i / 2]));
      sum[i / 2] += From16<kBf16>(rounded[i]);
    }
    weights[n / 2][n % 2 * 2] = Pair(rounded[0], rounded[1]);
    weights[n / 2][n % 2 * 2 + 1] = Pair(rounded[2], rounded[3]);
  }
  TUTTI_UNROLL
  for (int row = 0; row < 2; ++row) {
    sum[row] += ShuffleXor(sum[row], 1);
    sum[row] += ShuffleXor(sum[row], 2);
  }
}

// The four values of a lane, slots `slot` to `slot` + 3, without those after `last`.
TUTTI_DEVICE TwoWords KeepUpTo(TwoWords values, int32_t slot, int32_t last) {
  TUTTI_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (slot + i > last) values.w[i / 2] &= i % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
  }
  return values;
}

// Whether a lane's part of a stage of values holds Inf or NaN in slots that only some of the warp's
// pairs may see.
template <bool kBf16, int kDim>
TUTTI_DEVICE bool NotFiniteForSome(const char* stage, const WarpPairs& pairs, int32_t first_slot) {
  constexpr uint32_t kExponent = kBf16 ? 0x7f80u : 0x7c00u;
  const auto* const values = reinterpret_cast<const uint16_t*>(stage);
  constexpr int kPart = kKvUnit * kDim / kKeyStages;  // of a unit
  bool found = false;
  TUTTI_KEEP_LOOP
  for (int i = Lane(); i < kTileUnits * kPart; i += kWarp) {
    const int32_t slot = first_slot + i / kPart * kKvUnit + i % kKvUnit;
    if (slot <= pairs.smallest || slot > pairs.largest) continue;
    found = found || (values[i] & kExponent) == kExponent;
  }
  return found;
}

// sums[n] = weights * values, over the slots of the tile up to `last`, of a quarter of the head.
template <bool kBf16, int kDim>
TUTTI_DEVICE void WeighValues(const uint32_t (&weights)[kTileUnits][4], const char* stage,
                              bool at_end, int32_t first_slot, int32_t last,
                              float (&sums)[kDim / 32][4]) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_UNROLL
  for (int n = 0; n < kDim / 32; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  }
  TUTTI_UNROLL
  for (int u = 0; u < kTileUnits; ++u) {
    TUTTI_UNROLL
    for (int n = 0; n < kDim / 32; ++n) {
      const int at = u * (kKvUnit * kDim / kKeyStages) + (n * 8 + g) * kKvUnit + 4 * t;
      TwoWords values = *reinterpret_cast<const TwoWords*>(stage + at * 2);
      if (at_end) values = KeepUpTo(values, first_slot + u * kKvUnit + 4 * t, last);
      Mma<kBf16>(sums[n], weights[u], values.w);
    }
  }
}

// The same where some of the 16 pairs may end within the tile. Slots after a pair's position have
// weight 0, but 0 * Inf is NaN: values that no pair may see are left out, and when one that only
// some may see is not finite, each position is computed alone. Leaving out values of weight 0
// changes no bits otherwise.
template <bool kBf16, int kDim>
TUTTI_DEVICE void WeighValuesOfPairs(const uint32_t (&weights)[kTileUnits][4], const char* stage,
                                     const WarpPairs& pairs, int32_t first_slot,
                                     float (&sums)[kDim / 32][4]) {
  const bool at_end = first_slot + kAttentionTile - 1 > pairs.smallest;
  const bool alone = at_end && AnyInWarp(NotFiniteForSome<kBf16, kDim>(stage, pairs, first_slot));
  TUTTI_KEEP_LOOP
  for (int32_t last = alone ? pairs.smallest : pairs.largest; last <= pairs.largest; ++last) {
    float part[kDim / 32][4];
    WeighValues<kBf16, kDim>(weights, stage, at_end, first_slot, last, part);
    TUTTI_UNROLL
    for (int n = 0; n < kDim / 32; ++n) {
      TUTTI_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (!alone || pairs.position[i / 2] == last) sums[n][i] = part[n][i];
      }
    }
  }
}

}  // namespace tutti::kernels::cuda
