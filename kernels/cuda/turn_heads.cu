#include "kernels/cuda/joined.h"
#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_math.h"

namespace tutti::kernels::cuda {
namespace {

// Pairs of a head that a lane turns.
constexpr int kPairsOfLane = kHeadDimMax / 2 / kWarp;

// Heads of any dimension. A warp per row and head.
TUTTI_KERNEL_OF(kWarp) void TurnAnyHeads(TUTTI_PARAMETER TurnArgs args) {
  const int64_t row = BlockX();
  const auto head = static_cast<int32_t>(BlockY());
  const int32_t head_dim = args.head_dim, half = head_dim / 2, dim = args.layout.dim;
  const bool is_query = head < args.heads, is_value = head >= args.heads + args.layout.kv_heads;
  float* const x = args.qkv + row * args.stride + int64_t{1} * head * head_dim;
  const float* const bias = args.bias == nullptr ? nullptr : args.bias + head * head_dim;
  const float* const norm = is_query ? args.query_norm : args.key_norm;
  LetNextBegin();
  // Sines and cosines depend on positions alone, not on kernels before this one.
  float cosine[kPairsOfLane] = {}, sine[kPairsOfLane] = {};
  const auto position = static_cast<float>(args.position[row]);
  TUTTI_UNROLL
  for (int n = 0; n < kPairsOfLane; ++n) {
    const int32_t i = n * kWarp + Lane();
    if (is_value || i >= half) continue;
    const float angle = position * args.inverse_frequency[i];
    cosine[n] = cosf(angle);
    sine[n] = sinf(angle);
  }
  WaitForEarlier();

  const auto biased = [&](int32_t i) { return bias == nullptr ? x[i] : x[i] + bias[i]; };
  // Number d of a key or a value, to its place.
  const auto store = [&](int32_t d, float value) {
    const int32_t kv_head = head - args.heads - (is_value ? args.layout.kv_heads : 0);
    const int32_t slot = args.slot[row];
    const int32_t block = slot / args.layout.block_size, offset = slot % args.layout.block_size;
    const int64_t unit = KvUnitIndex(args.layout, block, offset, kv_head, is_value);
    const int32_t at = is_value ? ValueInUnit(args.layout, offset % kKvUnit, d)
                                : KeyInUnit(args.layout, offset % kKvUnit, d);
    StoreValue(args.cache, args.type, unit + at, NumberOrNan(args.type, value));
  };
  if (!is_query) {
    for (int32_t d = head_dim + Lane(); d < dim; d += kWarp) store(d, 0);
  }
  if (is_value) {
    for (int32_t d = Lane(); d < head_dim; d += kWarp) store(d, biased(d));
    return;
  }

  float inverse = 1;
  if (norm != nullptr) {
    float sum = 0;
    for (int32_t i = Lane(); i < head_dim; i += kWarp) {
      sum = FusedMultiplyAdd(biased(i), biased(i), sum);
    }
    inverse = InverseRms(ReduceWarp(sum, Sum()), head_dim, args.epsilon);
  }
  TUTTI_UNROLL
  for (int n = 0; n < kPairsOfLane; ++n) {
    const int32_t i = n * kWarp + Lane();
    if (i >= half) continue;
    float a = biased(i), b = biased(i + half);
    if (norm != nullptr) {
      a = a * inverse * norm[i];
      b = b * inverse * norm[i + half];
    }
    const Turned turned = Turn(a, b, cosine[n], sine[n]);
    if (is_query) {
      x[i] = turned.a;
      x[i + half] = turned.b;
    } else {
      store(i, turned.a);
      store(i + half, turned.b);
    }
  }
}

// Heads of kDim dimensions, without padding: what follows. A lane's numbers are those of dimensions
// lane + 32 n, so that both of a pair are its own, and its sum of squares runs in that order.
template <int kDim>
constexpr int kNumbers = kDim / kWarp;

// Rows whose values may be one unit of a 16-bit cache.
constexpr int kGroupRows = kKvUnit;

template <int kDim>
TUTTI_DEVICE void LoadHead(const float* x, float (&v)[kNumbers<kDim>]) {
  TUTTI_UNROLL
  for (int n = 0; n < kNumbers<kDim>; ++n) v[n] = x[n * kWarp + Lane()];
}
template <int kDim>
TUTTI_DEVICE void AddBias(const float* bias, float (&v)[kNumbers<kDim>]) {
  if (bias == nullptr) return;
  TUTTI_UNROLL
  for (int n = 0; n < kNumbers<kDim>; ++n) v[n] = v[n] + bias[n * kWarp + Lane()];
}

// The place of a row in the cache.
struct CachePlace {
  int64_t unit;    // of KV head 0
  int32_t offset;  // of the slot in its unit
};
TUTTI_DEVICE CachePlace PlaceOfSlot(const KvLayout& layout, int32_t slot) {
  const int32_t block = slot / layout.block_size, offset = slot % layout.block_size;
  return {KvUnitIndex(layout, block, offset, 0, false), offset % kKvUnit};
}
// First key, or value, of a KV head there.
TUTTI_DEVICE int64_t OfHead(const KvLayout& layout, const CachePlace& place, int32_t kv_head,
                            bool value) {
  return place.unit + KvUnitIndex(layout, 0, 0, kv_head, value);
}

template <int kDim>
TUTTI_DEVICE void StoreKey(const TurnArgs& args, const CachePlace& place, int32_t kv_head,
                           const float (&v)[kNumbers<kDim>]) {
  const int64_t unit = OfHead(args.layout, place, kv_head, false);
  TUTTI_UNROLL
  for (int n = 0; n < kNumbers<kDim>; ++n) {
    const int32_t at = KeyInUnit(args.layout, place.offset, n * kWarp + Lane());
    StoreValue(args.cache, args.type, unit + at, NumberOrNan(args.type, v[n]));
  }
}
template <int kDim>
TUTTI_DEVICE void StoreValues(const TurnArgs& args, const CachePlace& place, int32_t kv_head,
                              const float (&v)[kNumbers<kDim>]) {
  const int64_t unit = OfHead(args.layout, place, kv_head, true);
  TUTTI_UNROLL
  for (int n = 0; n < kNumbers<kDim>; ++n) {
    const int32_t at = ValueInUnit(args.layout, place.offset, n * kWarp + Lane());
    StoreValue(args.cache, args.type, unit + at, NumberOrNan(args.type, v[n]));
  }
}

// Sines and cosines of a row's position, the same for all of its heads.
template <int kDim>
struct Angles {
  float cosine[kNumbers<kDim> / 2], sine[kNumbers<kDim> / 2];
};
template <int kDim>
TUTTI_DEVICE Angles<kDim> AnglesOf(const TurnArgs& args, int32_t position) {
  Angles<kDim> angles;
  float frequency[kNumbers<kDim> / 2];
  TUTTI_UNROLL
  for (int n = 0; n < kNumbers<kDim> / 2; ++n) {
    frequency[n] = args.inverse_frequency[n * kWarp + Lane()];
  }
  TUTTI_UNROLL
  for (int n = 0; n < kNumbers<kDim> / 2; ++n) {
    const float angle = static_cast<float>(position) * frequency[n];
    angles.cosine[n] = cosf(angle);
    angles.sine[n] = sinf(angle);
  }
  return angles;
}

template <int kDim>
TUTTI_DEVICE void NormAndTurn(bool normed, const float (&norm)[kNumbers<kDim>], float epsilon,
                              const Angles<kDim>& angles, float (&v)[kNumbers<kDim>]) {
  constexpr int kPairs = kNumbers<kDim> / 2;
  if (normed) {
    float sum = 0;
    TUTTI_UNROLL
    for (int n = 0; n < kNumbers<kDim>; ++n) sum = FusedMultiplyAdd(v[n], v[n], sum);
    const float inverse = InverseRms(ReduceWarp(sum, Sum()), kDim, epsilon);
    TUTTI_UNROLL
    for (int n = 0; n < kNumbers<kDim>; ++n) v[n] = v[n] * inverse * norm[n];
  }
  TUTTI_UNROLL
  for (int n = 0; n < kPairs; ++n) {
    const Turned turned = Turn(v[n], v[n + kPairs], angles.cosine[n], angles.sine[n]);
    v[n] = turned.a;
    v[n + kPairs] = turned.b;
  }
}

// Heads [first, first + count) of one row, all queries or all keys. The next two are loaded while
// one is turned.
template <int kDim>
TUTTI_DEVICE void TurnSome(const TurnArgs& args, int64_t row, int32_t first, int32_t count) {
  const bool queries = first < args.heads;
  const float* const weight = queries ? args.query_norm : args.key_norm;
  const Angles<kDim> angles = AnglesOf<kDim>(args, args.position[row]);
  const CachePlace place = PlaceOfSlot(args.layout, args.slot[row]);
  float* x = args.qkv + row * args.stride + first * kDim;
  const float* bias = args.bias == nullptr ? nullptr : args.bias + first * kDim;
  WaitForEarlier();
  float v[kNumbers<kDim>], next[kNumbers<kDim>], after[kNumbers<kDim>] = {};
  float norm[kNumbers<kDim>] = {};
  LoadHead<kDim>(x, next);
  if (count > 1) LoadHead<kDim>(x + kDim, after);
  if (weight != nullptr) LoadHead<kDim>(weight, norm);
  TUTTI_KEEP_LOOP
  for (int32_t i = 0; i < count; ++i, x += kDim) {
    TUTTI_UNROLL
    for (int n = 0; n < kNumbers<kDim>; ++n) {
      v[n] = next[n];
      next[n] = after[n];
    }
    if (i + 2 < count) LoadHead<kDim>(x + 2 * kDim, after);
    AddBias<kDim>(bias == nullptr ? nullptr : bias + i * kDim, v);
    NormAndTurn<kDim>(weight != nullptr, norm, args.epsilon, angles, v);
    if (queries) {
      TUTTI_UNROLL
      for (int n = 0; n < kNumbers<kDim>; ++n) x[n * kWarp + Lane()] = v[n];
    } else {
      StoreKey<kDim>(args, place, first - args.heads + i, v);
    }
  }
}

// The values of one KV head of rows [first, first + count).
template <int kDim>
TUTTI_DEVICE void CacheValues(const TurnArgs& args, int64_t first, int32_t count, int32_t kv_head) {
  const int32_t head = args.heads + args.layout.kv_heads + kv_head;
  const float* const x = args.qkv + first * args.stride + head * kDim;
  const float* const bias = args.bias == nullptr ? nullptr : args.bias + head * kDim;
  CachePlace place = PlaceOfSlot(args.layout, args.slot[first]);
  bool one_unit = count == kGroupRows && place.offset == 0 && args.type != DType::kF32;
  for (int32_t i = 1; i < count && one_unit; ++i) {
    one_unit = args.slot[first + i] == args.slot[first] + i;
  }
  WaitForEarlier();
  if (!one_unit) {
    TUTTI_KEEP_LOOP
    for (int32_t i = 0; i < count; ++i) {
      float v[kNumbers<kDim>];
      LoadHead<kDim>(x + i * args.stride, v);
      AddBias<kDim>(bias, v);
      if (i > 0) place = PlaceOfSlot(args.layout, args.slot[first + i]);
      StoreValues<kDim>(args, place, kv_head, v);
    }
    return;
  }
  // A dimension's 16 slots lie side by side: 32 bytes of one lane.
  auto* const unit = static_cast<uint16_t*>(args.cache) + OfHead(args.layout, place, kv_head, true);
  TUTTI_KEEP_LOOP
  for (int32_t d = Lane(); d < kDim; d += kWarp) {
    float v[kGroupRows];
    TUTTI_UNROLL
    for (int i = 0; i < kGroupRows; ++i) v[i] = x[i * args.stride + d];
    const float added = bias == nullptr ? 0 : bias[d];
    Words words[2];
    TUTTI_UNROLL
    for (int i = 0; i < kGroupRows; i += 2) {
      const float a = bias == nullptr ? v[i] : v[i] + added;
      const float b = bias == nullptr ? v[i + 1] : v[i + 1] + added;
      const float low = NumberOrNan(args.type, a), high = NumberOrNan(args.type, b);
      words[i / 8].w[i % 8 / 2] =
          args.type == DType::kBF16 ? Bf16Pair(low, high) : Pair(ToF16(low), ToF16(high));
    }
    auto* const to = reinterpret_cast<Words*>(unit + ValueInUnit(args.layout, 0, d));
    to[0] = words[0];
    to[1] = words[1];
  }
}

// A warp per row and head.
template <int kDim>
TUTTI_KERNEL_OF(kWarp)
void TurnHeads(TUTTI_PARAMETER TurnArgs args) {
  LetNextBegin();
  const auto head = static_cast<int32_t>(BlockY());
  const int32_t turned = args.heads + args.layout.kv_heads;
  if (head < turned) {
    TurnSome<kDim>(args, BlockX(), head, 1);
  } else {
    CacheValues<kDim>(args, BlockX(), 1, head - turned);
  }
}

// Many rows: a warp has some heads of a row, whose sines are found once, or the values of a head of
// kGroupRows rows. A block has those of kGroupRows rows: `tasks` of TasksOf, a warp each.
constexpr int32_t kHeadsOfWarp = 8;
struct TurnTasks {
  int32_t queries, keys, values;  // warps that such rows take
};
TUTTI_HOST_DEVICE TurnTasks TasksOf(int32_t heads, int32_t kv_heads) {
  return {kGroupRows * ((heads + kHeadsOfWarp - 1) / kHeadsOfWarp),
          kGroupRows * ((kv_heads + kHeadsOfWarp - 1) / kHeadsOfWarp), kv_heads};
}

template <int kDim>
TUTTI_KERNEL_OF(kRowThreads)
void TurnManyRows(TUTTI_PARAMETER TurnArgs args) {
  LetNextBegin();
  const TurnTasks tasks = TasksOf(args.heads, args.layout.kv_heads);
  auto task = static_cast<int32_t>(BlockY() * (kRowThreads / kWarp) + WarpIndex());
  const int64_t first = BlockX() * kGroupRows;
  const int32_t rows =
      args.rows - first < kGroupRows ? static_cast<int32_t>(args.rows - first) : kGroupRows;
  if (task < tasks.values) return CacheValues<kDim>(args, first, rows, task);
  task -= tasks.values;
  const bool queries = task < tasks.queries;
  if (!queries) task -= tasks.queries;
  const int32_t in_group = task % kGroupRows, head = task / kGroupRows * kHeadsOfWarp;
  const int32_t heads = queries ? args.heads : args.layout.kv_heads;
  if (in_group >= rows || head >= heads) return WaitForEarlier();
  const int32_t count = heads - head < kHeadsOfWarp ? heads - head : kHeadsOfWarp;
  TurnSome<kDim>(args, first + in_group, queries ? head : args.heads + head, count);
}

template <int kDim>
void LaunchTurnOf(const TurnArgs& args, Launcher* launcher) {
  if (args.rows <= kJoinedRows) {
    return LaunchEarly(&TurnHeads<kDim>, {args.rows, args.heads + 2 * args.layout.kv_heads}, kWarp,
                       0, launcher, args);
  }
  const TurnTasks tasks = TasksOf(args.heads, args.layout.kv_heads);
  const int32_t warps = tasks.queries + tasks.keys + tasks.values;
  constexpr int kWarps = kRowThreads / kWarp;
  LaunchEarly(&TurnManyRows<kDim>,
              {(args.rows + kGroupRows - 1) / kGroupRows, (warps + kWarps - 1) / kWarps},
              kRowThreads, 0, launcher, args);
}

}  // namespace

bool TurnsManyRows(int32_t head_dim, int32_t padded_dim) {
  return head_dim == padded_dim && (head_dim == 64 || head_dim == 128 || head_dim == 256);
}

void LaunchTurn(const TurnArgs& args, Launcher* launcher) {
  if (!TurnsManyRows(args.head_dim, args.layout.dim)) {
    return LaunchEarly(&TurnAnyHeads, {args.rows, args.heads + 2 * args.layout.kv_heads}, kWarp, 0,
                       launcher, args);
  }
  switch (args.head_dim) {
    case 64:
      return LaunchTurnOf<64>(args, launcher);
    case 128:
      return LaunchTurnOf<128>(args, launcher);
    default:
      return LaunchTurnOf<256>(args, launcher);
  }
}

}  // namespace tutti::kernels::cuda
