// A warpgroup's walk over tiles by wgmma (attention_hopper.cu).
//
// Everything is transposed: keys and values are the left operands, from registers, as the lanes of
// a warp read them from the cache's units; queries and weights are the right ones, in shared memory
// as core matrices. So the cache keeps its one layout, and every instruction adds up the same 16
// products as those of attention_tile.h, in the same order of instructions.
//
// A block has two warpgroups, each with 64 pairs, and a warp that brings tiles. Of a warpgroup's
// scores [128 slots, 64 pairs] warp w has the slots of units 2 w and 2 w + 1; of its values [dims,
// 64 pairs] dims 16 w to 16 w + 15 of each 64.
#pragma once

#include "kernels/cuda/attention_hopper_pairs.h"
#include "kernels/cuda/attention_hopper_ring.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/number_formats.h"

namespace tutti::kernels::cuda {

// A warpgroup's walk.
template <bool kBf16, class Shape>
class PairAttender {
 public:
  TUTTI_DEVICE PairAttender(const AttentionArgs& args, const AttentionItem& item, int32_t head,
                            int warp, const TileRing<Shape>& ring)
      : args_(args),
        item_(item),
        ring_(ring),
        pairs_(PairsOfGroup(item, args.group, head, warp / kGroupWarps)),
        warp_(warp % kGroupWarps),
        g_(Lane() / 4),
        t_(Lane() % 4),
        queries_(ring.shared + Shape::kGroupsAt + warp / kGroupWarps * Shape::kGroupBytes),
        weights_(queries_ + Shape::kQueryBytes),
        memory_(*reinterpret_cast<GroupMemory*>(weights_ + Shape::kWeightBytes)) {}

  TUTTI_DEVICE void Run() {
    const bool active = pairs_.begin < pairs_.end;
    if (active) {
      PrepareQueries<kBf16, Shape>(args_, item_, pairs_, warp_, queries_, &memory_);
      FenceAsyncProxy();
      SyncWarpgroup();
    }
    float values[Shape::kDimTiles][kGroupPairs / 2] = {};
    TUTTI_KEEP_LOOP
    for (int32_t tile = item_.tile_begin; tile < item_.tile_end; ++tile) {
      if (active && tile * kAttentionTile <= pairs_.largest) {
        AttendTile(tile * kAttentionTile, values);
      } else {
        PassOver();
        PassOver();
      }
    }
    if (!active) return;
    ShareSums();
    SyncWarpgroup();
    auto* const results = reinterpret_cast<float*>(queries_);
    ShareResults<Shape>(warp_, values, results);
    SyncWarpgroup();
    StoreResults<Shape>(args_, memory_, results);
  }

 private:
  // Scores of half 0 are of the first two slots of each four, of half 1 of the others.
  using Scores = float[2][kGroupPairs / 2];
  using Values = float[Shape::kDimTiles][kGroupPairs / 2];
  // Left operands of the instructions over a tile's values: registers until these are through.
  using ValueWords = uint32_t[Shape::kDimTiles][kTileUnits][4];

  TUTTI_DEVICE void PassOver() {
    ring_.AwaitFull();
    ring_.Release();
  }

  TUTTI_DEVICE void AttendTile(int32_t first_slot, Values& values) {
    // Whether some pair may not see all slots of the tile.
    const bool at_end = first_slot + kAttentionTile - 1 > pairs_.smallest;
    {
      Scores scores;
      Score(scores);
      Scale(first_slot, at_end, scores);
      ShareLargest(scores);
      SyncWarpgroup();
      StoreWeights(scores);
    }
    ring_.AwaitFull();
    ValueWords left;
    LoadValues(first_slot, at_end, pairs_.largest, left);
    const bool may_be_alone =
        at_end && FindNotFinite<kBf16, Shape>(ring_.data(), warp_, pairs_.smallest + 1 - first_slot,
                                              pairs_.largest + 1 - first_slot, &memory_);
    FenceAsyncProxy();
    SyncWarpgroup();
    const bool alone = may_be_alone && AnyOf(memory_.not_finite);
    {
      Values sums;
      StartValues(left, sums);
      if (!alone) ring_.Release();
      FoldSums();
      AcceptValues(sums);
      SyncWarpgroup();
      if (!alone) FoldAll(sums, values);
    }
    if (alone) {
      WeighAlone(first_slot, values);
      ring_.Release();
    }
  }

  TUTTI_DEVICE void Score(Scores& scores) {
    ring_.AwaitFull();
    // Rows g and g + 8 are two neighbouring slots, in turn, so that the lanes of two rows read all
    // banks.
    const int odd = g_ % 2;
    const char* const upper = ring_.data() + (2 * warp_ + g_ / 4) * Shape::kUnitBytes +
                              (4 * (g_ % 4) + odd) * (kChunkK * 2) + t_ * 16;
    const char* const lower = upper + (1 - 2 * odd) * (kChunkK * 2);
    const uint64_t queries =
        MatrixDescriptor(SharedAddress(queries_), kCoreMatrixBytes, kPieceRows * kChunkK * 2);
    uint32_t keys[2][Shape::kDim / kWgmmaK][4];
    TUTTI_UNROLL
    for (int half = 0; half < 2; ++half) {
      TUTTI_UNROLL
      for (int c = 0; c < Shape::kDim / kChunkK; ++c) {
        const int at = c * (kKvUnit * kChunkK * 2) + half * (2 * kChunkK * 2);
        const Words first = *reinterpret_cast<const Words*>(upper + at);
        const Words second = *reinterpret_cast<const Words*>(lower + at);
        TUTTI_UNROLL
        for (int i = 0; i < 2; ++i) {
          keys[half][2 * c + i][0] = first.w[2 * i];
          keys[half][2 * c + i][1] = second.w[2 * i];
          keys[half][2 * c + i][2] = first.w[2 * i + 1];
          keys[half][2 * c + i][3] = second.w[2 * i + 1];
        }
      }
      WgmmaFence();
      TUTTI_UNROLL
      for (int k = 0; k < Shape::kDim / kWgmmaK; ++k) {
        const int at = k / 2 * Shape::kQueryChunkBytes + k % 2 * 2 * kCoreMatrixBytes;
        const uint64_t right = queries + static_cast<uint64_t>(at / 16);
        Add(k == 0, scores[half], keys[half][k], right);
      }
      WgmmaCommit();
    }
    ring_.Release();
    WgmmaWait<0>();
    AcceptSums(scores[0]);
    AcceptSums(scores[1]);
  }

  TUTTI_DEVICE static void Add(bool first, float (&c)[kGroupPairs / 2], const uint32_t (&a)[4],
                               uint64_t b) {
    if (first) {
      WgmmaFromNothing<kBf16>(c, a, b);
    } else {
      Wgmma<kBf16>(c, a, b);
    }
  }

  // Scores of slots after a pair's position to nothing, the others times log2 e and the scale.
  TUTTI_DEVICE void Scale(int32_t first_slot, bool at_end, Scores& scores) const {
    const float scale = args_.scale * kLog2E;
    TUTTI_UNROLL
    for (int i = 0; i < kGroupPairs; ++i) scores[i % 2][i / 2] *= scale;
    if (!at_end) return;
    const int32_t slot = first_slot + (2 * warp_ + g_ / 4) * kKvUnit + 4 * (g_ % 4);
    TUTTI_UNROLL
    for (int i = 0; i < kGroupPairs / 2; ++i) {
      const int32_t position = memory_.position[ColumnOf(i)];
      TUTTI_UNROLL
      for (int half = 0; half < 2; ++half) {
        if (slot + 2 * half + (i / 2 % 2 ^ g_ % 2) > position) scores[half][i] = MinusInfinity();
      }
    }
  }

  // The largest score of each pair in the warp's slots. Lanes of the same pairs halve them, until
  // lane 4 g + t has those of pairs 8 g + 2 t and 8 g + 2 t + 1.
  TUTTI_DEVICE void ShareLargest(const Scores& scores) const {
    float largest[kGroupPairs / 4];
    TUTTI_UNROLL
    for (int i = 0; i < kGroupPairs / 4; ++i) {
      const int at = i / 2 * 4 + i % 2;
      largest[i] =
          fmaxf(fmaxf(scores[0][at], scores[0][at + 2]), fmaxf(scores[1][at], scores[1][at + 2]));
    }
    KeepHalf<8>(g_, largest);
    KeepHalf<4>(g_, largest);
    KeepHalf<2>(g_, largest);
    TUTTI_UNROLL
    for (int i = 0; i < 2; ++i) memory_.largest[8 * g_ + 2 * t_ + i][warp_] = largest[i];
  }
  // Of unit u the word of slots 4 a and 4 a + 1 stands at 4 a in the row of its pair, that of the
  // next two in the next core matrix: the places of k that attention_tile.h has.
  TUTTI_DEVICE void StoreWeights(const Scores& scores) const {
    char* const to = weights_ + (2 * warp_ + g_ / 4) * kWeightUnitBytes + 2 * t_ * 16 + g_ % 4 * 4;
    // Score's turns of neighbouring slots.
    const uint32_t turn = 0x3210u ^ static_cast<uint32_t>(g_ % 2) * 0x2222u;
    TUTTI_UNROLL
    for (int i = 0; i < kGroupPairs / 4; ++i) {
      const int at = i / 2 * 4 + i % 2;
      const float largest = memory_.LargestOf(ColumnOf(at));
      const float base = largest == MinusInfinity() ? 0 : largest;
      TUTTI_UNROLL
      for (int half = 0; half < 2; ++half) {
        const uint32_t word =
            RoundedPair<kBf16>(Exp2(scores[half][at] - base), Exp2(scores[half][at + 2] - base));
        *reinterpret_cast<uint32_t*>(to + i / 2 * kWeightPairsBytes + half * kCoreMatrixBytes +
                                     i % 2 * 16) = PermuteBytes(word, turn);
      }
    }
  }

  // Values of slots up to `last`.
  TUTTI_DEVICE void LoadValues(int32_t first_slot, bool at_end, int32_t last,
                               ValueWords& values) const {
    const char* const from = ring_.data() + ((16 * warp_ + g_) * kKvUnit + 4 * t_) * 2;
    TUTTI_UNROLL
    for (int tile = 0; tile < Shape::kDimTiles; ++tile) {
      TUTTI_UNROLL
      for (int u = 0; u < kTileUnits; ++u) {
        TUTTI_UNROLL
        for (int i = 0; i < 2; ++i) {
          const int at = u * Shape::kUnitBytes + (tile * kWgmmaOut + 8 * i) * (kKvUnit * 2);
          const TwoWords words = *reinterpret_cast<const TwoWords*>(from + at);
          values[tile][u][i] = words.w[0];
          values[tile][u][2 + i] = words.w[1];
        }
      }
    }
    if (!at_end) return;
    TUTTI_UNROLL
    for (int u = 0; u < kTileUnits; ++u) {
      const TwoWords mask = SlotsUpTo(first_slot + u * kKvUnit + 4 * t_, last);
      TUTTI_UNROLL
      for (int tile = 0; tile < Shape::kDimTiles; ++tile) {
        TUTTI_UNROLL
        for (int i = 0; i < 4; ++i) values[tile][u][i] &= mask.w[i / 2];
      }
    }
  }
  // Starts sums = weights * values.
  TUTTI_DEVICE void StartValues(const ValueWords& values, Values& sums) const {
    const uint64_t weights =
        MatrixDescriptor(SharedAddress(weights_), kCoreMatrixBytes, kWeightPairsBytes);
    WgmmaFence();
    TUTTI_UNROLL
    for (int tile = 0; tile < Shape::kDimTiles; ++tile) {
      TUTTI_UNROLL
      for (int u = 0; u < kTileUnits; ++u) {
        Add(u == 0, sums[tile], values[tile][u],
            weights + static_cast<uint64_t>(u * kWeightUnitBytes / 16));
      }
    }
    WgmmaCommit();
  }
  TUTTI_DEVICE static void AcceptValues(Values& sums) {
    WgmmaWait<0>();
    TUTTI_UNROLL
    for (int tile = 0; tile < Shape::kDimTiles; ++tile) AcceptSums(sums[tile]);
  }

  // The sums of the weights, by four lanes for each of the warp's pairs 16 w + g and 16 w + 8 + g,
  // and how the tile joins those before it.
  TUTTI_DEVICE void FoldSums() {
    bool all = true;
    TUTTI_UNROLL
    for (int i = 0; i < 2; ++i) {
      const char* const from = weights_ + (2 * warp_ + i) * kWeightPairsBytes + Lane() * 4;
      float sum = 0;
      TUTTI_UNROLL
      for (int u = 0; u < kTileUnits; ++u) {
        TUTTI_UNROLL
        for (int half = 0; half < 2; ++half) {
          const uint32_t word = *reinterpret_cast<const uint32_t*>(from + u * kWeightUnitBytes +
                                                                   half * kCoreMatrixBytes);
          sum += From16<kBf16>(static_cast<uint16_t>(word));
          sum += From16<kBf16>(static_cast<uint16_t>(word >> 16));
        }
      }
      sum += ShuffleXor(sum, 1);
      sum += ShuffleXor(sum, 2);
      const int pair = 16 * warp_ + 8 * i + g_;
      const FoldScale scale = Fold(&softmax_[i], memory_.LargestOf(pair), sum);
      all = all && scale.any;
      if (t_ == 0) {
        memory_.scale[pair][0] = scale.any ? scale.before : -1;
        memory_.scale[pair][1] = scale.tile;
      }
    }
    const bool some = AnyInWarp(!all);
    if (Lane() == 0) memory_.left_out[warp_] = some ? 1 : 0;
  }

  TUTTI_DEVICE void FoldAll(const Values& sums, Values& values) const {
    if (AnyOf(memory_.left_out)) {
      FoldValues(sums, values, [](int, bool any) { return any; });
    } else {
      FoldValues(sums, values, [](int, bool) { return true; });
    }
  }
  //   folds(pair, any): whether a pair's values are folded
  template <class Folds>
  TUTTI_DEVICE void FoldValues(const Values& sums, Values& values, const Folds& folds) const {
    TUTTI_UNROLL
    for (int j = 0; j < kPairTiles; ++j) {
      const Floats scales =
          *reinterpret_cast<const Floats*>(memory_.scale[j * kPieceRows + 2 * t_]);
      TUTTI_UNROLL
      for (int i = 0; i < 2; ++i) {
        if (!folds(j * kPieceRows + 2 * t_ + i, !(scales.x[2 * i] < 0))) continue;
        const FoldScale scale = {scales.x[2 * i], scales.x[2 * i + 1], true};
        TUTTI_UNROLL
        for (int tile = 0; tile < Shape::kDimTiles; ++tile) {
          TUTTI_UNROLL
          for (int row = 0; row < 2; ++row) {
            float& value = values[tile][4 * j + 2 * row + i];
            value = FoldValue(scale, value, sums[tile][4 * j + 2 * row + i]);
          }
        }
      }
    }
  }

  TUTTI_DEVICE void ShareSums() const {
    if (t_ != 0) return;
    for (int i = 0; i < 2; ++i) memory_.sum[16 * warp_ + 8 * i + g_] = softmax_[i].sum;
  }

  // Each position by itself, without the values after it.
  TUTTI_DEVICE void WeighAlone(int32_t first_slot, Values& values) {
    TUTTI_KEEP_LOOP
    for (int32_t last = pairs_.smallest; last <= pairs_.largest; ++last) {
      ValueWords left;
      Values sums;
      LoadValues(first_slot, true, last, left);
      StartValues(left, sums);
      AcceptValues(sums);
      FoldValues(sums, values,
                 [&](int pair, bool any) { return any && memory_.position[pair] == last; });
    }
  }

  const AttentionArgs& args_;
  const AttentionItem& item_;
  TileRing<Shape> ring_;
  const GroupPairs pairs_;
  const int warp_;  // of the warpgroup
  const int g_, t_;
  char* const queries_;
  char* const weights_;
  GroupMemory& memory_;
  Softmax softmax_[2];  // of pairs 16 w + g and 16 w + 8 + g
};

}  // namespace tutti::kernels::cuda
