#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_softmax.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/number_formats.h"

namespace tutti::kernels::cuda {
namespace {

// Where the numbers of a row and query head go.
struct HeadTarget {
  float* out;  // nullptr: packed
  uint16_t* packed;
  int64_t row;
  int32_t first, end;  // packed k of the head; where the padding after it ends
  int32_t chunks;

  TUTTI_DEVICE void Store(int32_t d, float value) const {
    if (out != nullptr) {
      out[d] = value;
    } else {
      packed[ActivationIndex(row, first + d, chunks)] = ToBf16(value);
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
  return target;
}

// Zeros behind the last head of a leaf, by `count` threads of which this is `index`.
TUTTI_DEVICE void StorePadding(const HeadTarget& target, int32_t head_dim, int index, int count) {
  if (target.out != nullptr) return;
  for (int32_t d = head_dim + index; target.first + d < target.end; d += count) target.Store(d, 0);
}

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
    const HeadTarget target = TargetOf(args, item.first_row + pair / args.group,
                                       BlockY() * args.group + pair % args.group);
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

TUTTI_DEVICE int64_t Record(const AttentionArgs& args, int32_t record) {
  return int64_t{record} * args.layout.kv_heads + BlockY();
}

// Stores the sums of a tile that is computed apart, of the lane's two pairs. One lane of four calls
// it.
TUTTI_DEVICE void RecordSums(const AttentionArgs& args, const AttentionItem& item,
                             const float (&largest)[2], const float (&sum)[2]) {
  float* const sums = args.record_sums + Record(args, item.record) * kPairs * 2;
  for (int row = 0; row < 2; ++row) {
    sums[(Lane() / 4 + 8 * row) * 2] = largest[row];
    sums[(Lane() / 4 + 8 * row) * 2 + 1] = sum[row];
  }
}

// Scores of a tile to weights, and how the tile's values join those before it; of a tile that is
// computed apart, only its sums are stored.
template <bool kBf16>
TUTTI_DEVICE void WeighTile(const AttentionArgs& args, const AttentionItem& item,
                            const WarpPairs& pairs, int32_t first_slot, float scale,
                            float (&scores)[2 * kTileUnits][4], Softmax (&softmax)[2],
                            FoldScale (&fold)[2], uint32_t (&weights)[kTileUnits][4]) {
  float largest[2], sum[2];
  ScoresToWeights<kBf16>(scores, pairs, first_slot, scale, largest, sum, weights);
  if (item.record < 0) {
    for (int row = 0; row < 2; ++row) fold[row] = Fold(&softmax[row], largest[row], sum[row]);
  } else if (Lane() % 4 == 0) {
    RecordSums(args, item, largest, sum);
  }
}

// Values of a tile that is computed apart, as StoreResult has them.
template <int kDim>
TUTTI_DEVICE void RecordValues(const AttentionArgs& args, const AttentionItem& item,
                               const float (&values)[kDim / 8][4]) {
  const int g = Lane() / 4, t = Lane() % 4;
  float* const to = args.record_values + Record(args, item.record) * kPairs * kDim;
  TUTTI_UNROLL
  for (int n = 0; n < kDim / 8; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      to[(g + 8 * (i / 2)) * kDim + 8 * n + 2 * t + i % 2] = values[n][i];
    }
  }
}

// Values of a quarter of the head: those of the tiles before, folded with a tile's `sums`; of a
// tile that is computed apart, `sums` themselves.
template <int kDim>
TUTTI_DEVICE void FoldQuarter(const AttentionItem& item, const FoldScale (&fold)[2],
                              const float (&sums)[kDim / 32][4], float (*values)[4]) {
  TUTTI_UNROLL
  for (int n = 0; n < kDim / 32; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      float& value = values[n][i];
      value = item.record < 0 ? FoldValue(fold[i / 2], value, sums[n][i]) : sums[n][i];
    }
  }
}

template <bool kBf16, int kDim>
TUTTI_KERNEL void Attend(TUTTI_PARAMETER AttentionArgs args) {
  constexpr int kStageBytes = kStageSlots * kDim * 2;
  constexpr int kQuarter = kDim / 32;  // instructions side by side over a quarter of the head
  LetNextBegin();
  const AttentionItem item = args.items[BlockX()];
  if (item.pair_begin < item.pair_end) PrefetchTile<kDim>(args, item);
  WaitForEarlier();
  if (item.pair_begin == item.pair_end) return;  // one that only makes lists equally long
  const WarpPairs pairs = PairsOfWarp(item, args.group);
  const bool active = pairs.begin < pairs.end;
  char* const ring = SharedMemory();
  auto* const queries = reinterpret_cast<uint16_t*>(ring + kAttentionStages * kStageBytes) +
                        WarpIndex() * kPairs * kDim;
  const int32_t last = item.first_position + (item.pair_end - 1) / args.group;
  const int steps = (item.tile_end - item.tile_begin) * 2 * kKeyStages;
  const float scale = args.scale * kLog2E;

  LoadQueries<kBf16, kDim>(args, item, pairs, queries);
  int step = 0;
  const auto fetch = [&](int wanted) {
    if (wanted < steps) {
      FetchStage<kDim>(args, item, last, wanted, ring + wanted % kAttentionStages * kStageBytes);
    }
    CopyCommit();
  };
  // The stage of this step, and the order to copy the one three steps on.
  const auto next_stage = [&]() -> const char* {
    CopyWait<kAttentionStages - 2>();
    SyncBlock();
    fetch(step + kAttentionStages - 1);
    return ring + step++ % kAttentionStages * kStageBytes;
  };
  TUTTI_KEEP_LOOP
  for (int i = 0; i < kAttentionStages - 1; ++i) fetch(i);

  Softmax softmax[2];
  float values[kDim / 8][4] = {};
  TUTTI_KEEP_LOOP
  for (int32_t tile = item.tile_begin; tile < item.tile_end; ++tile) {
    const int32_t first_slot = tile * kAttentionTile;
    const bool sees = active && first_slot <= pairs.largest;
    float scores[2 * kTileUnits][4] = {};
    TUTTI_UNROLL
    for (int stage = 0; stage < kKeyStages; ++stage) {
      const char* const keys = next_stage();
      if (sees) AddScores<kBf16, kDim>(queries, keys, scores + stage * 4);
    }
    uint32_t weights[kTileUnits][4];
    FoldScale fold[2];
    if (sees) {
      WeighTile<kBf16>(args, item, pairs, first_slot, scale, scores, softmax, fold, weights);
    }
    TUTTI_UNROLL
    for (int stage = 0; stage < kKeyStages; ++stage) {
      const char* const part = next_stage();
      if (!sees) continue;
      float sums[kQuarter][4] = {};
      WeighValuesOfPairs<kBf16, kDim>(weights, part, pairs, first_slot, sums);
      FoldQuarter<kDim>(item, fold, sums, values + stage * kQuarter);
    }
  }
  if (!active) return;
  if (item.record < 0) {
    StoreResult<kDim>(args, item, pairs, values, softmax);
  } else {
    RecordValues<kDim>(args, item, values);
  }
}

// Folds tiles that were computed apart, in order; a thread per value.
TUTTI_KERNEL void FoldRecords(TUTTI_PARAMETER AttentionArgs args) {
  LetNextBegin();
  const FoldItem item = args.folds[BlockX()];
  WaitForEarlier();
  const int32_t dim = args.layout.dim;
  for (int i = ThreadIndex(); i < (item.pair_end - item.pair_begin) * dim; i += ThreadCount()) {
    const int32_t pair = item.pair_begin + i / dim, d = i % dim;
    if (d >= args.head_dim) continue;
    const int32_t row = pair / args.group;
    const int32_t tiles = (item.first_position + row) / kAttentionTile + 1;
    Softmax softmax;
    float value = 0;
    for (int32_t tile = 0; tile < tiles; ++tile) {
      const int64_t record = Record(args, item.record + tile) * kPairs + i / dim;
      const FoldScale fold =
          Fold(&softmax, args.record_sums[record * 2], args.record_sums[record * 2 + 1]);
      value = FoldValue(fold, value, args.record_values[record * dim + d]);
    }
    const HeadTarget target =
        TargetOf(args, item.first_row + row, BlockY() * args.group + pair % args.group);
    target.Store(d, value / softmax.sum);
    if (d == args.head_dim - 1) StorePadding(target, args.head_dim, 0, 1);
  }
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
  const int bytes = kAttentionStages * kStageSlots * kDim * 2 + args.warps * kPairs * kDim * 2;
  LaunchEarly(&Attend<kBf16, kDim>, {args.item_count, args.layout.kv_heads}, args.warps * kWarp,
              bytes, launcher, args);
}

template <bool kBf16>
void LaunchDim(const AttentionArgs& args, Launcher* launcher) {
  switch (args.layout.dim) {
    case 64:
      return LaunchOf<kBf16, 64>(args, launcher);
    case 96:
      return LaunchOf<kBf16, 96>(args, launcher);
    case 128:
      return LaunchOf<kBf16, 128>(args, launcher);
    default:
      return LaunchOf<kBf16, 256>(args, launcher);
  }
}

}  // namespace

void LaunchAttention(DType type, const AttentionArgs& args, Launcher* launcher) {
  return type == DType::kBF16 ? LaunchDim<true>(args, launcher) : LaunchDim<false>(args, launcher);
}

void LaunchFold(const AttentionArgs& args, Launcher* launcher) {
  LaunchEarly(&FoldRecords, {args.fold_count, args.layout.kv_heads}, kRowThreads, 0, launcher,
              args);
}

void LaunchPlainAttention(const PlainAttentionArgs& args, Launcher* launcher) {
  Launch(&AttendPlain, {args.rows, args.heads}, kWarp, 0, launcher, args);
}

void LaunchWriteKv(const WriteKvArgs& args, Launcher* launcher) {
  Launch(&WriteKv, {args.rows, 1}, kRowThreads, 0, launcher, args);
}

}  // namespace tutti::kernels::cuda
