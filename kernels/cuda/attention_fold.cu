// The folding of tiles that were computed apart, in order.
//
// Of the sums of tiles, only the largest score so far is a chain, and a maximum may be taken in any
// order: so the factors of as many tiles as a block has threads are computed side by side. The
// values of the next tiles are on their way while those of the last are folded.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/attention_target.h"
#include "kernels/cuda/attention_tile.h"

namespace tutti::kernels::cuda {
namespace {

// Tiles whose values are asked for at once; as many more while they are folded.
constexpr int kTilesAhead = 16;

// How a tile folds: its FoldScale, and what it adds to the sum.
struct alignas(16) TileFactors {
  float before, tile, sum;
  uint32_t any;
};

struct Shared {
  float largest[kHeadDimMax / kWarp];  // of each warp's tiles
  TileFactors factors[kHeadDimMax];    // [threads]
};

// Factors of the tile of each thread, given its largest score and the largest of all tiles before
// the block's; that of all up to the block's is returned.
TUTTI_DEVICE float FactorsOfTiles(float largest, float sum, float before, Shared* shared) {
  float upto = largest;  // of the warp's tiles, up to this one
  TUTTI_UNROLL
  for (int step = 1; step < kWarp; step *= 2) {
    const float left = Broadcast(upto, Lane() < step ? Lane() : Lane() - step);
    upto = fmaxf(upto, left);
  }
  if (Lane() == kWarp - 1) shared->largest[WarpIndex()] = upto;
  float left = Broadcast(upto, Lane() == 0 ? 0 : Lane() - 1);
  SyncBlock();
  if (Lane() == 0) left = MinusInfinity();
  float all = before;
  for (int warp = 0; warp < ThreadCount() / kWarp; ++warp) {
    if (warp == WarpIndex()) left = fmaxf(left, all);
    all = fmaxf(all, shared->largest[warp]);
  }
  const FoldScale scale = FoldLargest(&left, largest, HoldsAny(largest, sum));
  shared->factors[ThreadIndex()] = {scale.before, scale.tile, sum * scale.tile, scale.any ? 1u : 0};
  SyncBlock();
  return all;
}

// A block for each pair, a thread for each of its values.
TUTTI_KERNEL void FoldRecords(TUTTI_PARAMETER AttentionArgs args) {
  LetNextBegin();
  const auto fold_of = static_cast<int32_t>(BlockX());
  const FoldItem item = args.folds[fold_of / args.fold_pairs];
  const int32_t pair = item.pair_begin + fold_of % args.fold_pairs;
  WaitForEarlier();
  if (pair >= item.pair_end) return;
  auto* const shared = reinterpret_cast<Shared*>(SharedMemory());
  const PairPlace place = PlaceOf(pair, args.group);
  const int32_t tiles = (item.first_position + place.row) / kAttentionTile + 1;
  const int32_t dim = args.layout.dim;
  const int64_t stride = int64_t{args.layout.kv_heads} * kPairs;  // of records
  const int64_t record = item.record * stride + BlockY() * kPairs + (pair - item.pair_begin);
  const float* from = args.record_values + record * dim + ThreadIndex();
  const float* const sums = args.record_sums + record * 2;

  float value = 0, sum = 0, largest = MinusInfinity();
  for (int32_t first = 0; first < tiles; first += ThreadCount()) {
    const int32_t count = tiles - first < ThreadCount() ? tiles - first : ThreadCount();
    float tile_largest = MinusInfinity(), tile_sum = 0;
    if (ThreadIndex() < count) {
      const float* const two = sums + (first + ThreadIndex()) * stride * 2;
      tile_largest = two[0];
      tile_sum = two[1];
    }
    float next[kTilesAhead];
    const auto fetch = [&](int32_t tile) {
      TUTTI_UNROLL
      for (int i = 0; i < kTilesAhead; ++i) {
        next[i] = 0;
        if (tile + i < count) next[i] = from[(first + tile + i) * stride * dim];
      }
    };
    fetch(0);
    largest = FactorsOfTiles(tile_largest, tile_sum, largest, shared);
    TUTTI_KEEP_LOOP
    for (int32_t tile = 0; tile < count; tile += kTilesAhead) {
      float now[kTilesAhead];
      TUTTI_UNROLL
      for (int i = 0; i < kTilesAhead; ++i) now[i] = next[i];
      fetch(tile + kTilesAhead);
      TUTTI_UNROLL
      for (int i = 0; i < kTilesAhead; ++i) {
        const TileFactors factors = shared->factors[tile + i];
        value = FoldValue({factors.before, factors.tile, factors.any != 0}, value, now[i]);
        if (factors.any != 0) sum = FusedMultiplyAdd(sum, factors.before, factors.sum);
      }
    }
    SyncBlock();
  }
  const HeadTarget target =
      TargetOf(args, item.first_row + place.row, BlockY() * args.group + place.head);
  if (ThreadIndex() < args.head_dim) target.Store(ThreadIndex(), value / sum);
  StorePadding(target, args.head_dim, ThreadIndex(), ThreadCount());
}

}  // namespace

void LaunchFold(const AttentionArgs& args, Launcher* launcher) {
  LaunchEarly(&FoldRecords, {int64_t{args.fold_count} * args.fold_pairs, args.layout.kv_heads},
              args.layout.dim, sizeof(Shared), launcher, args);
}

}  // namespace tutti::kernels::cuda
