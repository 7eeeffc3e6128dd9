#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/attention_target.h"
#include "kernels/cuda/attention_tile.h"

namespace tutti::kernels::cuda {
namespace {

// Where a lane's results go: values [kDim / 8][4], of rows g and g + 8, dims 8 n + 2 t + {0, 1}.
template <int kDim>
TUTTI_DEVICE void StoreResult(const AttentionArgs& args, const AttentionItem& item,
                              const WarpPairs& pairs, const float (&values)[kDim / 8][4],
                              const Softmax (&softmax)[2]) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int32_t pair = pairs.begin + g + 8 * half;
    if (pair >= pairs.end) continue;
    const PairPlace place = PlaceOf(pair, args.group);
    const HeadTarget target =
        TargetOf(args, item.first_row + place.row, BlockY() * args.group + place.head);
    TUTTI_UNROLL
    for (int n = 0; n < kDim / 8; ++n) {
      TUTTI_UNROLL
      for (int i = 0; i < 2; ++i) {
        const int32_t d = 8 * n + 2 * t + i;
        if (d < args.head_dim) target.Store(d, values[n][2 * half + i] / softmax[half].sum);
      }
    }
    StorePadding(target, args.head_dim, t, 4);
  }
}

// Values of a quarter of the head: those of the tiles before, folded with a tile's `sums`.
template <int kDim>
TUTTI_DEVICE void FoldQuarter(const FoldScale (&fold)[2], const float (&sums)[kDim / 32][4],
                              float (*values)[4]) {
  TUTTI_UNROLL
  for (int n = 0; n < kDim / 32; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) values[n][i] = FoldValue(fold[i / 2], values[n][i], sums[n][i]);
  }
}

// Scores of a tile to weights, and how the tile's values join those before it.
template <bool kBf16>
TUTTI_DEVICE void WeighTile(const WarpPairs& pairs, int32_t first_slot, float scale,
                            float (&scores)[2 * kTileUnits][4], Softmax (&softmax)[2],
                            FoldScale (&fold)[2], uint32_t (&weights)[kTileUnits][4]) {
  float largest[2], sum[2];
  ScoresToWeights<kBf16>(scores, pairs, first_slot, scale, largest, sum, weights);
  for (int row = 0; row < 2; ++row) fold[row] = Fold(&softmax[row], largest[row], sum[row]);
}

// Many pairs: kAttentionWarps warps, 16 pairs each, share the tiles that pass through a ring.
template <bool kBf16, int kDim>
TUTTI_KERNEL_OF(kAttentionWarps* kWarp)
void Attend(TUTTI_PARAMETER AttentionArgs args) {
  constexpr int kStageBytes = kStageSlots * kDim * 2;
  constexpr int kStages = 2 * kKeyStages;
  LetNextBegin();
  const AttentionItem item = args.items[BlockX()];
  const int32_t last = LastPosition(item, args.group);
  int32_t unit = 0;  // of the tile, the lane's; and of the tile after it
  if (item.pair_begin < item.pair_end) {
    unit = UnitOfLane(args, item, last, item.tile_begin);
    PrefetchTile<kDim>(args, unit);
  }
  WaitForEarlier();
  if (item.pair_begin == item.pair_end) return;  // one that only makes lists equally long
  int32_t next_unit = UnitOfLane(args, item, last, item.tile_begin + 1);
  const WarpPairs pairs = PairsFrom(item, args.group, item.pair_begin + WarpIndex() * kPairs);
  char* const ring = SharedMemory();
  auto* const queries = reinterpret_cast<uint16_t*>(ring + kAttentionStages * kStageBytes) +
                        WarpIndex() * kPairs * kDim;

  LoadQueries<kBf16, kDim>(args, item, pairs, queries);
  int32_t tile = item.tile_begin;
  // A stage of this tile or, kStages on, of the next.
  const auto fetch = [&](int stage) {
    if (stage < kStages || tile + 1 < item.tile_end) {
      FetchStage<kDim>(args, stage < kStages ? unit : next_unit, stage % kStages,
                       ring + stage % kAttentionStages * kStageBytes);
    }
    CopyCommit();
  };
  // The stage, and the order to copy the one three on.
  const auto next_stage = [&](int stage) -> const char* {
    CopyWait<kAttentionStages - 2>();
    SyncBlock();
    fetch(stage + kAttentionStages - 1);
    return ring + stage % kAttentionStages * kStageBytes;
  };
  TUTTI_UNROLL
  for (int i = 0; i < kAttentionStages - 1; ++i) fetch(i);

  Softmax softmax[2];
  float values[kDim / 8][4] = {};
  TUTTI_KEEP_LOOP
  for (; tile < item.tile_end; ++tile) {
    const int32_t first_slot = tile * kAttentionTile;
    const bool sees = pairs.begin < pairs.end && first_slot <= pairs.largest;
    float scores[2 * kTileUnits][4] = {};
    TUTTI_UNROLL
    for (int stage = 0; stage < kKeyStages; ++stage) {
      const char* const keys = next_stage(stage);
      if (sees) AddScores<kBf16, kDim>(queries, keys, scores + stage * 4);
    }
    uint32_t weights[kTileUnits][4];
    FoldScale fold[2];
    if (sees)
      WeighTile<kBf16>(pairs, first_slot, args.scale * kLog2E, scores, softmax, fold, weights);
    TUTTI_UNROLL
    for (int stage = 0; stage < kKeyStages; ++stage) {
      const char* const part = next_stage(kKeyStages + stage);
      if (!sees) continue;
      float sums[kDim / 32][4] = {};
      WeighValuesOfPairs<kBf16, kDim>(weights, part, pairs, first_slot, sums);
      FoldQuarter<kDim>(fold, sums, values + stage * (kDim / 32));
    }
    unit = next_unit;
    next_unit = UnitOfLane(args, item, last, tile + 2);
  }
  if (pairs.begin < pairs.end) StoreResult<kDim>(args, item, pairs, values, softmax);
}

// f32 caches: a warp per row and query head; tiles of 32 slots, a lane each for the scores, then a
// lane for every 32nd value.
TUTTI_KERNEL void AttendPlain(TUTTI_PARAMETER PlainAttentionArgs args) {
  const int64_t row = BlockX();
  const auto head = static_cast<int32_t>(BlockY());
  const int32_t dim = args.layout.dim, position = args.position[row];
  const int32_t* const blocks = args.blocks + args.block_begin[row];
  const float* const q = args.q + row * args.q_stride + int64_t{1} * head * dim;
  const auto unit = [&](int32_t slot, bool value) {
    return args.cache + KvUnitIndex(args.layout, blocks[slot / args.layout.block_size],
                                    slot % args.layout.block_size, head / args.group, value);
  };
  constexpr int kValues = kHeadDimMax / kWarp;
  float values[kValues] = {};
  Softmax softmax;
  for (int32_t first = 0; first <= position; first += kWarp) {
    const int32_t slot = first + Lane();
    float score = MinusInfinity();
    if (slot <= position) {
      const float* const key = unit(slot, false) + KeyInUnit(args.layout, slot % kKvUnit, 0);
      score = 0;
      for (int32_t d = 0; d < dim; ++d) score = FusedMultiplyAdd(q[d], key[d], score);
      score *= args.scale * kLog2E;
    }
    float largest = score;
    for (int mask = 1; mask < kWarp; mask *= 2) largest = fmaxf(largest, ShuffleXor(largest, mask));
    const float base = largest == MinusInfinity() ? 0 : largest;
    const float weight = Exp2(score - base);
    float sum = weight;
    for (int mask = 1; mask < kWarp; mask *= 2) sum += ShuffleXor(sum, mask);
    const FoldScale fold = Fold(&softmax, largest, sum);
    float tile[kValues] = {};
    for (int32_t i = 0; i < kWarp; ++i) {
      const float shared = Broadcast(weight, i);
      if (first + i > position) continue;
      const float* const value =
          unit(first + i, true) + ValueInUnit(args.layout, (first + i) % kKvUnit, 0);
      TUTTI_UNROLL
      for (int j = 0; j < kValues; ++j) {
        const int32_t d = j * kWarp + Lane();
        if (d < dim) tile[j] = FusedMultiplyAdd(shared, value[d], tile[j]);
      }
    }
    TUTTI_UNROLL
    for (int j = 0; j < kValues; ++j) values[j] = FoldValue(fold, values[j], tile[j]);
  }
  TUTTI_UNROLL
  for (int j = 0; j < kValues; ++j) {
    const int32_t d = j * kWarp + Lane();
    if (d < dim) {
      args.out[row * args.out_stride + int64_t{1} * head * dim + d] = values[j] / softmax.sum;
    }
  }
}

TUTTI_KERNEL void WriteKv(TUTTI_PARAMETER WriteKvArgs args) {
  const int64_t row = BlockX();
  const int32_t dim = args.layout.dim;
  const int32_t slot = args.slot[row];
  const int32_t block = slot / args.layout.block_size, offset = slot % args.layout.block_size;
  for (int32_t i = ThreadIndex(); i < args.layout.kv_heads * dim; i += ThreadCount()) {
    const int32_t head = i / dim, d = i % dim;
    const int64_t from = int64_t{1} * head * args.head_dim + d;
    const bool real = d < args.head_dim;
    const float k = real ? NumberOrNan(args.type, args.k[row * args.k_stride + from]) : 0;
    const float v = real ? NumberOrNan(args.type, args.v[row * args.v_stride + from]) : 0;
    const int64_t keys = KvUnitIndex(args.layout, block, offset, head, false);
    const int64_t values = KvUnitIndex(args.layout, block, offset, head, true);
    StoreValue(args.cache, args.type, keys + KeyInUnit(args.layout, offset % kKvUnit, d), k);
    StoreValue(args.cache, args.type, values + ValueInUnit(args.layout, offset % kKvUnit, d), v);
  }
}

template <bool kBf16, int kDim>
void LaunchOf(const AttentionArgs& args, Launcher* launcher) {
  constexpr int kBytes = (kAttentionStages * kStageSlots + kAttentionWarps * kPairs) * kDim * 2;
  LaunchEarly(&Attend<kBf16, kDim>, {args.item_count, args.layout.kv_heads},
              kAttentionWarps * kWarp, kBytes, launcher, args);
}

template <bool kBf16>
void LaunchDim(const AttentionArgs& args, Launcher* launcher) {
  WithDim(args.layout.dim, [&](auto dim) { LaunchOf<kBf16, dim.value>(args, launcher); });
}

}  // namespace

void LaunchAttention(DType type, const AttentionArgs& args, Launcher* launcher) {
  return type == DType::kBF16 ? LaunchDim<true>(args, launcher) : LaunchDim<false>(args, launcher);
}

void LaunchPlainAttention(const PlainAttentionArgs& args, Launcher* launcher) {
  Launch(&AttendPlain, {args.rows, args.heads}, kWarp, 0, launcher, args);
}

void LaunchWriteKv(const WriteKvArgs& args, Launcher* launcher) {
  Launch(&WriteKv, {args.rows, 1}, kRowThreads, 0, launcher, args);
}

}  // namespace tutti::kernels::cuda
