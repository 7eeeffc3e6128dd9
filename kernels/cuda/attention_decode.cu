// Attention of few pairs, as decode steps have them.
//
// What counts is how soon all of a tile is on its way and how little is done one after the other:
// the warps of a block share the steps of a tile (attention_few.h), which come from shared memory.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_few.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/attention_target.h"

namespace tutti::kernels::cuda {
namespace {

struct alignas(8) TwoFloats {
  float first, second;
};

TUTTI_DEVICE int64_t Record(const AttentionArgs& args, int32_t record) {
  return int64_t{record} * args.layout.kv_heads + BlockY();
}

// The warp's part of a tile that is computed apart.
template <int kDim>
TUTTI_DEVICE void RecordPart(const AttentionArgs& args, int32_t record, const WarpPairs& pairs,
                             const float (&sums)[kParts<kDim>][4]) {
  const int g = Lane() / 4, t = Lane() % 4;
  const int first = WarpIndex() * kParts<kDim> * 8;
  float* const to = args.record_values + Record(args, record) * kPairs * kDim + 2 * t;
  TUTTI_UNROLL
  for (int half = 0; half < 2; ++half) {
    if (pairs.position[half] < 0) continue;
    TUTTI_UNROLL
    for (int n = 0; n < kParts<kDim>; ++n) {
      if (first + n * 8 >= kDim) continue;
      *reinterpret_cast<TwoFloats*>(to + (g + 8 * half) * kDim + first + n * 8) = {
          sums[n][2 * half], sums[n][2 * half + 1]};
    }
  }
}

// The warp's part of the result.
template <int kDim>
TUTTI_DEVICE void StorePart(const AttentionArgs& args, const AttentionItem& item,
                            const float (&values)[kParts<kDim>][4], const float* sum) {
  const int g = Lane() / 4, t = Lane() % 4;
  const int first = WarpIndex() * kParts<kDim> * 8;
  TUTTI_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int32_t pair = item.pair_begin + g + 8 * half;
    if (pair >= item.pair_end) continue;
    const PairPlace place = PlaceOf(pair, args.group);
    const HeadTarget target =
        TargetOf(args, item.first_row + place.row, BlockY() * args.group + place.head);
    TUTTI_UNROLL
    for (int n = 0; n < kParts<kDim>; ++n) {
      TUTTI_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int32_t d = first + n * 8 + 2 * t + i;
        if (d < args.head_dim) target.Store(d, values[n][2 * half + i] / sum[g + 8 * half]);
      }
    }
    StorePadding(target, args.head_dim, WarpIndex() * 4 + t, kTileUnits * 4);
  }
}

// The tiles so far: the lane's two pairs, and the warp's part of the head. Sums are in shared
// memory.
template <int kDim>
struct FewSoFar {
  float largest[2] = {MinusInfinity(), MinusInfinity()};
  float values[kParts<kDim>][4] = {};
};

// Folds a tile into those before it.
//   row: of the lane's two, that whose sum the warp has
template <int kDim>
TUTTI_DEVICE void FoldPart(const TileLargest& tile, int row, float sum,
                           const float (&sums)[kParts<kDim>][4], FewSoFar<kDim>* so_far,
                           float* total) {
  FoldScale fold[2];
  TUTTI_UNROLL
  for (int i = 0; i < 2; ++i) {
    fold[i] = FoldLargest(&so_far->largest[i], tile.largest[i], tile.any[i]);
    if (i != row || Lane() % 4 != 0) continue;
    float& of_pair = total[Lane() / 4 + 8 * row];
    of_pair = FoldValue(fold[i], of_pair, sum);
  }
  TUTTI_UNROLL
  for (int n = 0; n < kParts<kDim>; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      so_far->values[n][i] = FoldValue(fold[i / 2], so_far->values[n][i], sums[n][i]);
    }
  }
}

// The sums of a tile that is computed apart, of the lane's pair of those two that `row` tells.
TUTTI_DEVICE void RecordSums(const AttentionArgs& args, int32_t record, int row,
                             const TileLargest& tile, float sum) {
  const int pair = Lane() / 4 + 8 * row;
  float* const to = args.record_sums + (Record(args, record) * kPairs + pair) * 2;
  *reinterpret_cast<TwoFloats*>(to) = {row == 0 ? tile.largest[0] : tile.largest[1], sum};
}

// Blocks on a multiprocessor, which its registers leave room for.
template <int kDim, bool kBeside>
constexpr int kFewResidents = kDim > 128 ? 2
                              : kBeside  ? 3
                                         : 4;

template <bool kBf16, int kDim, bool kBeside>
TUTTI_RESIDENT_KERNEL_OF(kFewThreads, (kFewResidents<kDim, kBeside>))
void AttendFew(TUTTI_PARAMETER AttentionArgs args) {
  LetNextBegin();
  const AttentionItem item = args.items[BlockX()];
  int32_t unit = -1;  // the warp's, of the tile
  if (item.pair_begin < item.pair_end) {
    unit = UnitOfWarp(args, item, LastPosition(item, args.group), item.tile_begin);
    PrefetchUnit<kDim>(args, unit);
  }
  WaitForEarlier();
  if (item.pair_begin == item.pair_end) return;  // one that only makes lists equally long
  auto* const shared = reinterpret_cast<FewShared<kDim, kBeside>*>(SharedMemory());
  FewQueries<kDim> queries;
  queries.Load(args, item);
  FetchUnit(args, unit, false, shared);
  if (kBeside) FetchUnit(args, unit, true, shared);
  queries.template Store<kBf16>(shared->queries);
  const WarpPairs pairs = PairsFrom(item, args.group, item.pair_begin);
  const int row = WarpIndex();  // whose sums this warp has, of the lane's two; others have none
  if (ThreadIndex() < kPairs) shared->sum[ThreadIndex()] = 0;

  FewSoFar<kDim> so_far;
  TUTTI_KEEP_LOOP
  for (int32_t tile = item.tile_begin; tile < item.tile_end; ++tile) {
    const int32_t first_slot = tile * kAttentionTile;
    const bool more = tile + 1 < item.tile_end;
    const int32_t next = more ? UnitOfWarp(args, item, pairs.largest, tile + 1) : -1;
    CopyWait<kBeside ? 1 : 0>();
    SyncBlock();
    float scores[2][4] = {};
    ScoresOfUnit<kBf16>(*shared, pairs, first_slot + WarpIndex() * kKvUnit, args.scale * kLog2E,
                        scores);
    ShareLargest(scores, shared->largest);
    SyncBlock();  // the keys were used
    if (!kBeside) FetchUnit(args, unit, true, shared);
    unit = next;
    if (kBeside && more) FetchUnit(args, unit, false, shared);
    const TileLargest of_tile = LargestOfTile(shared->largest);
    shared->weights[WarpIndex()][Lane()] = WeightsOfUnit<kBf16>(scores, of_tile);
    if (kBeside && more) {
      CopyWait<1>();
    } else {
      CopyWait<0>();
    }
    SyncBlock();
    float sums[kParts<kDim>][4] = {};
    WeighPart<kBf16>(*shared, pairs, first_slot, sums);
    const float sum = row < 2 ? SumOfWeights<kBf16>(shared->weights, row) : 0;
    if (item.record >= 0) {
      RecordPart<kDim>(args, item.record, pairs, sums);
      if (row < 2 && Lane() % 4 == 0) RecordSums(args, item.record, row, of_tile, sum);
      return;
    }
    if (more) {
      SyncBlock();  // the values were used
      FetchUnit(args, unit, kBeside, shared);
    }
    FoldPart<kDim>(of_tile, row, sum, sums, &so_far, shared->sum);
  }
  SyncBlock();
  // The item once more, for the registers.
  StorePart<kDim>(args, args.items[BlockX()], so_far.values, shared->sum);
}

template <bool kBf16, int kDim, bool kBeside>
void LaunchOf(const AttentionArgs& args, Launcher* launcher) {
  LaunchEarly(&AttendFew<kBf16, kDim, kBeside>, {args.item_count, args.layout.kv_heads},
              kFewThreads, sizeof(FewShared<kDim, kBeside>), launcher, args);
}

template <bool kBf16>
void LaunchDim(const AttentionArgs& args, bool crowded, Launcher* launcher) {
  WithDim(args.layout.dim, [&](auto dim) {
    if (crowded || dim.value > 128) return LaunchOf<kBf16, dim.value, false>(args, launcher);
    if constexpr (dim.value <= 128) LaunchOf<kBf16, dim.value, true>(args, launcher);
  });
}

}  // namespace

void LaunchFewAttention(DType type, const AttentionArgs& args, Launcher* launcher) {
  return type == DType::kBF16 ? LaunchDim<true>(args, false, launcher)
                              : LaunchDim<false>(args, false, launcher);
}

void LaunchCrowdedAttention(DType type, const AttentionArgs& args, Launcher* launcher) {
  return type == DType::kBF16 ? LaunchDim<true>(args, true, launcher)
                              : LaunchDim<false>(args, true, launcher);
}

}  // namespace tutti::kernels::cuda
