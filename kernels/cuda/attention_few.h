// One tile of attention of few pairs, step by step: its warps bring it into shared memory as a
// whole, each has the scores and weights of one unit and then the weighted values of one part of
// the head.
#pragma once

#include "kernels/cuda/attention_tile.h"

namespace tutti::kernels::cuda {

// Of a block.
inline constexpr int kFewThreads = kTileUnits * kWarp;

// Of a warp: instructions side by side over its part of the head. Of 96 dims some warps have fewer.
template <int kDim>
inline constexpr int kParts = (kDim / 8 + kTileUnits - 1) / kTileUnits;

// Shared memory of a block.
//   kRoom: a tile's values have room beside its keys, else they take the place of the keys; then
//     three blocks of 73 KiB fit on a multiprocessor of compute capability 9.0, or more of 41 KiB
template <int kHeadDim, bool kRoom>
struct alignas(16) FewShared {
  static constexpr int kDim = kHeadDim;
  static constexpr bool kBeside = kRoom;
  static constexpr int kUnitStride = (kBeside ? 2 : 1) * kUnitBytes<kDim>;
  static constexpr int kValuesAt = kBeside ? kUnitBytes<kDim> : 0;
  char units[kTileUnits * kUnitStride];  // each as in the cache
  Words weights[kTileUnits][kWarp];      // the left operand of each unit's instruction
  uint16_t queries[kPairs * kDim];       // [dim / 32][16 pairs][32]
  float largest[kPairs][kTileUnits];
  float sum[kPairs];
};

// Where the warp's unit of a tile is in the cache, as PlaceOfUnit; -1 where all of it is after
// `last`. Then nothing is brought, and what is there in its place is given no weight.
TUTTI_DEVICE int32_t UnitOfWarp(const AttentionArgs& args, const AttentionItem& item, int32_t last,
                                int32_t tile) {
  if ((tile * kTileUnits + WarpIndex()) * kKvUnit > last) return -1;
  return PlaceOfUnit(args, item, last, tile, WarpIndex());
}

// Copies the keys or the values of the warp's unit of a tile.
template <class Shared>
TUTTI_DEVICE void FetchUnit(const AttentionArgs& args, int32_t unit, bool value, Shared* shared) {
  if (unit >= 0) {
    const int lane = Lane() * 16;
    const char* const from = UnitAt<Shared::kDim>(args, unit) + lane;
    char* const to = shared->units + WarpIndex() * Shared::kUnitStride + lane;
    TUTTI_UNROLL
    for (int at = 0; at < kUnitBytes<Shared::kDim>; at += kWarp * 16) {
      CopyAsync16(to + (value ? Shared::kValuesAt : 0) + at,
                  from + (value ? kUnitBytes<Shared::kDim> : 0) + at, true);
    }
  }
  CopyCommit();
}

// Brings the warp's unit nearer, keys and values, before it may be read.
template <int kDim>
TUTTI_DEVICE void PrefetchUnit(const AttentionArgs& args, int32_t unit) {
  constexpr int kLineBytes = 128;
  if (unit < 0) return;
  const char* const from = UnitAt<kDim>(args, unit) + Lane() * kLineBytes;
  TUTTI_UNROLL
  for (int at = 0; at < 2 * kUnitBytes<kDim>; at += kWarp * kLineBytes) {
    if (at + Lane() * kLineBytes < 2 * kUnitBytes<kDim>) PrefetchLine(from + at);
  }
}

// The queries of two of the item's pairs, to be rounded while keys and values are on their way.
template <int kDim>
struct FewQueries {
  float of[2][kDim / 32];

  TUTTI_DEVICE void Load(const AttentionArgs& args, const AttentionItem& item) {
    TUTTI_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int32_t pair = item.pair_begin + WarpIndex() + 8 * half;
      const bool real = pair < item.pair_end;
      const PairPlace place = PlaceOf(real ? pair : 0, args.group);
      const int64_t head = BlockY() * args.group + place.head;
      const float* const from =
          args.q + (item.first_row + place.row) * args.q_stride + head * args.head_dim;
      TUTTI_UNROLL
      for (int c = 0; c < kDim / 32; ++c) {
        const int32_t d = c * 32 + Lane();
        of[half][c] = real && d < args.head_dim ? from[d] : 0;
      }
    }
  }
  template <bool kBf16>
  TUTTI_DEVICE void Store(uint16_t* queries) const {
    TUTTI_UNROLL
    for (int half = 0; half < 2; ++half) {
      TUTTI_UNROLL
      for (int c = 0; c < kDim / 32; ++c) {
        const int at = c * (kPairs * 32) + (WarpIndex() + 8 * half) * 32 + Lane();
        queries[at] = To16<kBf16>(of[half][c]);
      }
    }
  }
};

// The larger of two scores. NaN where there is none but -Inf and NaN: in the end, the largest of
// scores without any that counts tells whether all are -Inf.
TUTTI_DEVICE float LargerOrNan(float a, float b) {
  const float larger = fmaxf(a, b);
  return larger == MinusInfinity() ? a + b : larger;
}

// Scores of the warp's unit, of slots from `first_slot`.
template <bool kBf16, class Shared>
TUTTI_DEVICE void ScoresOfUnit(const Shared& shared, const WarpPairs& pairs, int32_t first_slot,
                               float scale, float (&scores)[2][4]) {
  const int g = Lane() / 4, t = Lane() % 4;
  const char* const unit = shared.units + WarpIndex() * Shared::kUnitStride;
  TUTTI_UNROLL
  for (int c = 0; c < Shared::kDim / 32; ++c) {
    const uint16_t* const from = shared.queries + c * (kPairs * 32) + t * 8;
    const Words upper = *reinterpret_cast<const Words*>(from + g * 32);
    const Words lower = *reinterpret_cast<const Words*>(from + (g + 8) * 32);
    TUTTI_UNROLL
    for (int n = 0; n < 2; ++n) {
      const int at = c * (kKvUnit * 32) + ScoreSlot(n, g) * 32 + t * 8;
      const Words key = *reinterpret_cast<const Words*>(unit + at * 2);
      Mma<kBf16>(scores[n], {upper.w[0], lower.w[0], upper.w[1], lower.w[1]}, {key.w[0], key.w[1]});
      Mma<kBf16>(scores[n], {upper.w[2], lower.w[2], upper.w[3], lower.w[3]}, {key.w[2], key.w[3]});
    }
  }
  TUTTI_UNROLL
  for (int n = 0; n < 2; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int32_t slot = first_slot + ScoreSlot(n, 2 * t + i % 2);
      float& score = scores[n][i];
      score = slot <= pairs.position[i / 2] ? score * scale : MinusInfinity();
    }
  }
}

// Of the lane's two pairs over the unit, for the other warps.
TUTTI_DEVICE void ShareLargest(const float (&scores)[2][4], float (*largest)[kTileUnits]) {
  TUTTI_UNROLL
  for (int row = 0; row < 2; ++row) {
    float of_unit = LargerOrNan(LargerOrNan(scores[0][2 * row], scores[0][2 * row + 1]),
                                LargerOrNan(scores[1][2 * row], scores[1][2 * row + 1]));
    of_unit = LargerOrNan(of_unit, ShuffleXor(of_unit, 1));
    of_unit = LargerOrNan(of_unit, ShuffleXor(of_unit, 2));
    if (Lane() % 4 == 0) largest[Lane() / 4 + 8 * row][WarpIndex()] = of_unit;
  }
}

// The largest score of the tile, of each of the lane's two pairs, and whether there was any.
struct TileLargest {
  float largest[2];
  bool any[2];
};
TUTTI_DEVICE TileLargest LargestOfTile(const float (*largest)[kTileUnits]) {
  TileLargest tile;
  TUTTI_UNROLL
  for (int row = 0; row < 2; ++row) {
    const float* const units = largest[Lane() / 4 + 8 * row];
    float all = units[0];
    TUTTI_UNROLL
    for (int u = 1; u < kTileUnits; ++u) all = LargerOrNan(all, units[u]);
    tile.any[row] = all != MinusInfinity();
    tile.largest[row] = fmaxf(all, MinusInfinity());
  }
  return tile;
}

// Weights of the unit's scores, rounded, as an operand.
template <bool kBf16>
TUTTI_DEVICE Words WeightsOfUnit(const float (&scores)[2][4], const TileLargest& tile) {
  const float base[2] = {tile.largest[0] == MinusInfinity() ? 0 : tile.largest[0],
                         tile.largest[1] == MinusInfinity() ? 0 : tile.largest[1]};
  Words weights;
  TUTTI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float(&of)[4] = scores[i / 2];
    const int row = i % 2;
    weights.w[i] = Pair(To16<kBf16>(Exp2(of[2 * row] - base[row])),
                        To16<kBf16>(Exp2(of[2 * row + 1] - base[row])));
  }
  return weights;
}

// The sum of a tile's weights, of one of the lane's two pairs, in the order of ScoresToWeights.
template <bool kBf16>
TUTTI_DEVICE float SumOfWeights(const Words (*weights)[kWarp], int row) {
  float sum = 0;
  TUTTI_UNROLL
  for (int u = 0; u < kTileUnits; ++u) {
    TUTTI_UNROLL
    for (int n = 0; n < 2; ++n) {
      const uint32_t two = weights[u][Lane()].w[2 * n + row];
      sum += From16<kBf16>(static_cast<uint16_t>(two));
      sum += From16<kBf16>(static_cast<uint16_t>(two >> 16));
    }
  }
  sum += ShuffleXor(sum, 1);
  sum += ShuffleXor(sum, 2);
  return sum;
}

// The values of instruction `n` of the warp's part of the head, of unit 0: [8 dims][16 slots].
template <class Shared>
TUTTI_DEVICE const uint16_t* PartAt(const Shared& shared, int n) {
  constexpr bool kEven = kParts<Shared::kDim> * kTileUnits == Shared::kDim / 8;
  // Behind the head's end nothing is needed: any part then.
  const int part = WarpIndex() * kParts<Shared::kDim> + n;
  const int real = kEven || part < Shared::kDim / 8 ? part : 0;
  return reinterpret_cast<const uint16_t*>(shared.units + Shared::kValuesAt) + real * (8 * kKvUnit);
}

// Whether the lane's share of the part has Inf or NaN in slots that only some pairs may see.
template <bool kBf16, class Shared>
TUTTI_DEVICE bool NotFiniteInPart(const Shared& shared, const WarpPairs& pairs,
                                  int32_t first_slot) {
  constexpr uint32_t kExponent = kBf16 ? 0x7f80u : 0x7c00u;
  const SlotRange some = SlotsOfSome(pairs, first_slot);
  bool found = false;
  TUTTI_UNROLL
  for (int n = 0; n < kParts<Shared::kDim>; ++n) {
    const uint16_t* const values = PartAt(shared, n) + Lane() % 8 * kKvUnit;
    TUTTI_KEEP_LOOP
    for (int32_t slot = some.begin + Lane() / 8; slot < some.end; slot += 4) {
      const int at = slot / kKvUnit * (Shared::kUnitStride / 2) + slot % kKvUnit;
      found = found || (values[at] & kExponent) == kExponent;
    }
  }
  return found;
}

// sums = weights * values, over the slots of the tile up to `last`.
template <bool kBf16, class Shared>
TUTTI_DEVICE void WeighUpTo(const Shared& shared, int32_t first_slot, int32_t last,
                            float (&sums)[kParts<Shared::kDim>][4]) {
  TUTTI_UNROLL
  for (int n = 0; n < kParts<Shared::kDim>; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  }
  TUTTI_UNROLL
  for (int u = 0; u < kTileUnits; ++u) {
    const Words left = shared.weights[u][Lane()];
    const TwoWords kept = SlotsUpTo(first_slot + u * kKvUnit + 4 * (Lane() % 4), last);
    TUTTI_UNROLL
    for (int n = 0; n < kParts<Shared::kDim>; ++n) {
      const uint16_t* const values = PartAt(shared, n) + u * (Shared::kUnitStride / 2) + 4 * Lane();
      const TwoWords right = *reinterpret_cast<const TwoWords*>(values);
      Mma<kBf16>(sums[n], left.w, {right.w[0] & kept.w[0], right.w[1] & kept.w[1]});
    }
  }
}

// As WeighValuesOfPairs, of the warp's part of the head.
template <bool kBf16, class Shared>
TUTTI_DEVICE void WeighPart(const Shared& shared, const WarpPairs& pairs, int32_t first_slot,
                            float (&sums)[kParts<Shared::kDim>][4]) {
  const bool alone = SlotsOfSome(pairs, first_slot).any() &&
                     AnyInWarp(NotFiniteInPart<kBf16>(shared, pairs, first_slot));
  TUTTI_KEEP_LOOP
  for (int32_t last = alone ? pairs.smallest : pairs.largest; last <= pairs.largest; ++last) {
    SyncWarp();  // so that what is the same in all turns is not kept in registers
    float part[kParts<Shared::kDim>][4];
    WeighUpTo<kBf16>(shared, first_slot, last, part);
    TUTTI_UNROLL
    for (int n = 0; n < kParts<Shared::kDim>; ++n) {
      TUTTI_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (!alone || pairs.position[i / 2] == last) sums[n][i] = part[n][i];
      }
    }
  }
}

}  // namespace tutti::kernels::cuda
