// One tile of attention on tensor cores, step by step: bringing it into shared memory, scores,
// weights and weighted values. A warp has 16 pairs of a row and a query head.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/number_formats.h"

namespace tutti::kernels::cuda {

// Calls `launch` with the padded dim of a head for which there are kernels, as a constant.
template <class Fn>
void WithDim(int32_t dim, const Fn& launch) {
  switch (dim) {
    case 64:
      return launch(std::integral_constant<int, 64>());
    case 96:
      return launch(std::integral_constant<int, 96>());
    case 128:
      return launch(std::integral_constant<int, 128>());
    default:
      return launch(std::integral_constant<int, 256>());
  }
}

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

// The row of its sequence that a pair is of, and the query head of the group.
struct PairPlace {
  int32_t row, head;
};
TUTTI_DEVICE PairPlace PlaceOf(int32_t pair, int32_t group) {
  if (pair < group) return {0, pair};  // all pairs of a decode step: no division
  const auto row = static_cast<int32_t>(static_cast<uint32_t>(pair) / static_cast<uint32_t>(group));
  return {row, pair - row * group};
}
TUTTI_DEVICE int32_t LastPosition(const AttentionItem& item, int32_t group) {
  return item.first_position + PlaceOf(item.pair_end - 1, group).row;
}

// Those of the item from `begin` on.
TUTTI_DEVICE WarpPairs PairsFrom(const AttentionItem& item, int32_t group, int32_t begin) {
  WarpPairs pairs;
  pairs.begin = begin;
  pairs.end = begin + kPairs < item.pair_end ? begin + kPairs : item.pair_end;
  pairs.smallest = item.first_position + PlaceOf(begin, group).row;
  pairs.largest = item.first_position + PlaceOf(pairs.end - 1, group).row;
  for (int i = 0; i < 2; ++i) {
    const int32_t pair = begin + Lane() / 4 + 8 * i;
    if (pair < pairs.end) pairs.position[i] = item.first_position + PlaceOf(pair, group).row;
  }
  return pairs;
}

// Queries of the warp's pairs, rounded, as [dim / 32][16 pairs][32].
template <bool kBf16, int kDim>
TUTTI_DEVICE void LoadQueries(const AttentionArgs& args, const AttentionItem& item,
                              const WarpPairs& pairs, uint16_t* queries) {
  TUTTI_UNROLL
  for (int p = 0; p < kPairs; ++p) {
    const bool real = pairs.begin + p < pairs.end;
    const PairPlace place = PlaceOf(real ? pairs.begin + p : 0, args.group);
    const int64_t head = BlockY() * args.group + place.head;
    const float* const from =
        args.q + (item.first_row + place.row) * args.q_stride + head * args.head_dim;
    TUTTI_UNROLL
    for (int c = 0; c < kDim / 32; ++c) {
      const int32_t d = c * 32 + Lane();
      const float value = real && d < args.head_dim ? from[d] : 0;
      queries[c * (kPairs * 32) + p * 32 + Lane()] = To16<kBf16>(value);
    }
  }
  SyncWarp();
}

// Where unit `index` of a tile is in the cache, counted in units of keys and values. For slots
// after `last`, which nobody sees, it is that of `last`.
TUTTI_DEVICE int32_t PlaceOfUnit(const AttentionArgs& args, const AttentionItem& item, int32_t last,
                                 int32_t tile, int index) {
  const int32_t wanted = (tile * kTileUnits + index) * kKvUnit;
  const auto unit = static_cast<uint32_t>(wanted < last ? wanted : last) / kKvUnit;
  const auto units = static_cast<uint32_t>(args.layout.block_size) / kKvUnit;  // of a block
  const uint32_t table = unit / units;
  const int32_t block = args.blocks[item.block_begin + static_cast<int32_t>(table)];
  const auto head = static_cast<int32_t>(BlockY());
  return (block * args.layout.kv_heads + head) * static_cast<int32_t>(units) +
         static_cast<int32_t>(unit - table * units);
}
// That of number lane % 8 of the tile.
TUTTI_DEVICE int32_t UnitOfLane(const AttentionArgs& args, const AttentionItem& item, int32_t last,
                                int32_t tile) {
  return PlaceOfUnit(args, item, last, tile, Lane() % kTileUnits);
}

// Bytes of a unit's keys, behind which come as many of its values.
template <int kDim>
inline constexpr int kUnitBytes = kKvUnit* kDim * 2;

template <int kDim>
TUTTI_DEVICE const char* UnitAt(const AttentionArgs& args, int32_t unit) {
  return static_cast<const char*>(args.cache) + int64_t{unit} * (2 * kUnitBytes<kDim>);
}

// Copies a stage of a tile: the first four are of keys, two whole units each, the others of values,
// a quarter of each of the eight.
//   unit: the lane's, as UnitOfLane
template <int kDim>
TUTTI_DEVICE void FetchStage(const AttentionArgs& args, int32_t unit, int stage, char* to) {
  constexpr int kThreads = kAttentionWarps * kWarp;
  constexpr int kCopies = kStageSlots * kDim * 2 / 16;
  const bool value = stage >= kKeyStages;
  const int part = stage % kKeyStages;
  const int piece = value ? kUnitBytes<kDim> / kKeyStages : kUnitBytes<kDim>;
  static_assert(kCopies % kThreads == 0);
  TUTTI_UNROLL
  for (int j = 0; j < kCopies / kThreads; ++j) {
    const int at = (j * kThreads + ThreadIndex()) * 16;  // of the stage
    const int32_t from = Broadcast(unit, (value ? 0 : part * 2) + at / piece);
    const int in_unit = (value ? kUnitBytes<kDim> + part * piece : 0) + at % piece;
    CopyAsync16(to + at, UnitAt<kDim>(args, from) + in_unit, true);
  }
}

// Brings a tile nearer, keys and values, before it may be read. All threads of the block call it.
template <int kDim>
TUTTI_DEVICE void PrefetchTile(const AttentionArgs& args, int32_t unit) {
  constexpr int kLineBytes = 128;
  constexpr int kLines = 2 * kUnitBytes<kDim> / kLineBytes;  // of a unit
  for (int i = ThreadIndex(); i < kTileUnits * kLines; i += ThreadCount()) {
    PrefetchLine(UnitAt<kDim>(args, Broadcast(unit, i / kLines)) + i % kLines * kLineBytes);
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

// Masks of a lane's four values, slots `slot` to `slot` + 3: those up to `last`.
TUTTI_DEVICE TwoWords SlotsUpTo(int32_t slot, int32_t last) {
  const int32_t count = last - slot + 1;
  TwoWords kept;
  TUTTI_UNROLL
  for (int i = 0; i < 2; ++i) {
    kept.w[i] = count >= 2 * i + 2 ? 0xffffffffu : count == 2 * i + 1 ? 0x0000ffffu : 0;
  }
  return kept;
}

// Slots of a tile that only some of the pairs may see; none where all are of one row.
struct SlotRange {
  int32_t begin, end;
  TUTTI_DEVICE bool any() const { return begin < end; }
};
TUTTI_DEVICE SlotRange SlotsOfSome(const WarpPairs& pairs, int32_t first_slot) {
  const int32_t begin = pairs.smallest - first_slot + 1, end = pairs.largest - first_slot + 1;
  return {begin < 0 ? 0 : begin, end < kAttentionTile ? end : kAttentionTile};
}

// Whether a lane's part of a stage of values holds Inf or NaN in such slots.
template <bool kBf16, int kDim>
TUTTI_DEVICE bool NotFiniteForSome(const char* stage, const WarpPairs& pairs, int32_t first_slot) {
  constexpr uint32_t kExponent = kBf16 ? 0x7f80u : 0x7c00u;
  const auto* const values = reinterpret_cast<const uint16_t*>(stage);
  constexpr int kPart = kKvUnit * kDim / kKeyStages;  // of a unit
  const SlotRange some = SlotsOfSome(pairs, first_slot);
  bool found = false;
  TUTTI_KEEP_LOOP
  for (int32_t slot = some.begin; slot < some.end; ++slot) {
    const uint16_t* const from = values + slot / kKvUnit * kPart + slot % kKvUnit;
    for (int d = Lane(); d < kDim / kKeyStages; d += kWarp) {
      found = found || (from[d * kKvUnit] & kExponent) == kExponent;
    }
  }
  return found;
}

// sums[n] = weights * values, over the slots of the tile up to `last`, of a quarter of the head.
template <bool kBf16, int kDim>
TUTTI_DEVICE void WeighValues(const uint32_t (&weights)[kTileUnits][4], const char* stage,
                              int32_t first_slot, int32_t last, float (&sums)[kDim / 32][4]) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_UNROLL
  for (int n = 0; n < kDim / 32; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  }
  TUTTI_UNROLL
  for (int u = 0; u < kTileUnits; ++u) {
    const TwoWords kept = SlotsUpTo(first_slot + u * kKvUnit + 4 * t, last);
    TUTTI_UNROLL
    for (int n = 0; n < kDim / 32; ++n) {
      const int at = u * (kKvUnit * kDim / kKeyStages) + (n * 8 + g) * kKvUnit + 4 * t;
      const TwoWords values = *reinterpret_cast<const TwoWords*>(stage + at * 2);
      Mma<kBf16>(sums[n], weights[u], {values.w[0] & kept.w[0], values.w[1] & kept.w[1]});
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
  const bool alone = SlotsOfSome(pairs, first_slot).any() &&
                     AnyInWarp(NotFiniteForSome<kBf16, kDim>(stage, pairs, first_slot));
  TUTTI_KEEP_LOOP
  for (int32_t last = alone ? pairs.smallest : pairs.largest; last <= pairs.largest; ++last) {
    SyncWarp();  // so that what is the same in all turns is not kept in registers
    float part[kDim / 32][4];
    WeighValues<kBf16, kDim>(weights, stage, first_slot, last, part);
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
