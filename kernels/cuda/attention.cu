#include "kernels/cuda/attention.h"
#include "kernels/cuda/number_formats.h"

namespace tutti::kernels::cuda {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;
constexpr int kUnits = kAttentionTile / kKvUnit;  // of a tile
constexpr int kKeyStages = 4;                     // of a tile; and as many of values
constexpr int kStageSlots = kAttentionTile / kKeyStages;

TUTTI_DEVICE float MinusInfinity() { return -__builtin_huge_valf(); }

// A row's softmax so far: the largest score (times log2 e) and the sum of the weights.
struct Softmax {
  float largest = MinusInfinity();
  float sum = 0;
};

// What a tile's results and those before it are multiplied by.
struct FoldScale {
  float before, tile;
  bool any;  // false: the tile holds no slot of this row and changes nothing
};

TUTTI_DEVICE FoldScale Fold(Softmax* softmax, float tile_largest, float tile_sum) {
  // Scores that are all NaN have no largest either, but their sum is NaN.
  if (tile_largest == MinusInfinity() && tile_sum == 0) return {1, 0, false};
  const float largest = fmaxf(softmax->largest, tile_largest);
  const FoldScale scale = {Exp2(softmax->largest - largest), Exp2(tile_largest - largest), true};
  softmax->largest = largest;
  softmax->sum = FusedMultiplyAdd(softmax->sum, scale.before, tile_sum * scale.tile);
  return scale;
}

TUTTI_DEVICE float FoldValue(const FoldScale& scale, float before, float tile) {
  return scale.any ? FusedMultiplyAdd(before, scale.before, tile * scale.tile) : before;
}

struct alignas(16) Words {
  uint32_t w[4];
};
struct alignas(8) TwoWords {
  uint32_t w[2];
};

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

// Brings the item's first tile nearer, keys and values, before anybody may read it.
template <int kDim>
TUTTI_DEVICE void PrefetchTile(const AttentionArgs& args, const AttentionItem& item) {
  constexpr int kLineBytes = 128;
  constexpr int kLines = 2 * kKvUnit * kDim * 2 / kLineBytes;  // of a unit, keys and values
  const int32_t last = item.first_position + (item.pair_end - 1) / args.group;
  for (int i = ThreadIndex(); i < kUnits * kLines; i += ThreadCount()) {
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
TUTTI_DEVICE void ScoresToWeights(float (&scores)[2 * kUnits][4], const WarpPairs& pairs,
                                  int32_t first_slot, float scale, float (&largest)[2],
                                  float (&sum)[2], uint32_t (&weights)[kUnits][4]) {
  const int t = Lane() % 4;
  largest[0] = largest[1] = MinusInfinity();
  sum[0] = sum[1] = 0;
  TUTTI_UNROLL
  for (int n = 0; n < 2 * kUnits; ++n) {
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
  for (int n = 0; n < 2 * kUnits; ++n) {
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
  for (int i = Lane(); i < kUnits * kPart; i += kWarp) {
    const int32_t slot = first_slot + i / kPart * kKvUnit + i % kKvUnit;
    if (slot <= pairs.smallest || slot > pairs.largest) continue;
    found = found || (values[i] & kExponent) == kExponent;
  }
  return found;
}

// sums[n] = weights * values, over the slots of the tile up to `last`, of a quarter of the head.
template <bool kBf16, int kDim>
TUTTI_DEVICE void WeighValues(const uint32_t (&weights)[kUnits][4], const char* stage, bool at_end,
                              int32_t first_slot, int32_t last, float (&sums)[kDim / 32][4]) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_UNROLL
  for (int n = 0; n < kDim / 32; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  }
  TUTTI_UNROLL
  for (int u = 0; u < kUnits; ++u) {
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
TUTTI_DEVICE void WeighValuesOfPairs(const uint32_t (&weights)[kUnits][4], const char* stage,
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
  const int g = Lane() / 4, t = Lane() % 4;

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
    float scores[2 * kUnits][4] = {};
    TUTTI_UNROLL
    for (int stage = 0; stage < kKeyStages; ++stage) {
      const char* const keys = next_stage();
      if (sees) AddScores<kBf16, kDim>(queries, keys, scores + stage * 4);
    }
    float largest[2], sum[2];
    uint32_t weights[kUnits][4];
    FoldScale fold[2];
    if (sees) {
      ScoresToWeights<kBf16>(scores, pairs, first_slot, scale, largest, sum, weights);
      if (item.record < 0) {
        for (int row = 0; row < 2; ++row) fold[row] = Fold(&softmax[row], largest[row], sum[row]);
      } else if (t == 0) {
        float* const sums = args.record_sums + Record(args, item.record) * kPairs * 2;
        for (int row = 0; row < 2; ++row) {
          sums[(g + 8 * row) * 2] = largest[row];
          sums[(g + 8 * row) * 2 + 1] = sum[row];
        }
      }
    }
    TUTTI_UNROLL
    for (int stage = 0; stage < kKeyStages; ++stage) {
      const char* const part = next_stage();
      if (!sees) continue;
      float sums[kQuarter][4] = {};
      WeighValuesOfPairs<kBf16, kDim>(weights, part, pairs, first_slot, sums);
      TUTTI_UNROLL
      for (int n = 0; n < kQuarter; ++n) {
        TUTTI_UNROLL
        for (int i = 0; i < 4; ++i) {
          float& value = values[stage * kQuarter + n][i];
          value = item.record < 0 ? FoldValue(fold[i / 2], value, sums[n][i]) : sums[n][i];
        }
      }
    }
  }
  if (!active) return;
  if (item.record < 0) {
    StoreResult<kDim>(args, item, pairs, values, softmax);
    return;
  }
  float* const to = args.record_values + Record(args, item.record) * kPairs * kDim;
  TUTTI_UNROLL
  for (int n = 0; n < kDim / 8; ++n) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) {
      to[(g + 8 * (i / 2)) * kDim + 8 * n + 2 * t + i % 2] = values[n][i];
    }
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
