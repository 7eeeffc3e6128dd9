#include "kernels/cuda/joined.h"
#include "kernels/cuda/leaf_sums.h"
#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_math.h"

namespace tutti::kernels::cuda {
namespace {

constexpr int kAddNormReduceBytes = kAddNormThreads / kWarp * 16;

// Rounds `value`(k) of one row into its packed place, by all threads of a block of kThreads, which
// share the row between them from `first` on, `step` apart.
template <class Fn>
TUTTI_DEVICE void PackBf16(const PackedTarget& to, int64_t row, int32_t first, int32_t step,
                           const Fn& value) {
  const int32_t chunks = Chunks(to.leaves);
  for (int32_t packed = first; packed < chunks * kChunkK; packed += step) {
    const int32_t k = SourceK(to.leaves, packed);
    to.rows[ActivationIndex(row, packed, chunks)] = ToBf16(k < 0 ? 0 : value(k));
  }
}

// One leaf of a row, by a block of kThreads: `value` is asked for twice.
template <int kThreads, class Fn>
TUTTI_DEVICE void PackF16Leaf(const PackedTarget& to, int64_t row, int32_t leaf, const Fn& value) {
  const int32_t begin = to.leaves.begin[leaf], length = to.leaves.begin[leaf + 1] - begin;
  float largest = 0;
  for (int32_t k = ThreadIndex(); k < length; k += kThreads) {
    largest = LargestFinite(largest, value(begin + k));
  }
  largest = ReduceBlock<kThreads>(largest, Larger());
  const float scale = F16Scale(largest), inverse = 1 / scale;
  if (ThreadIndex() == 0) to.scale[ScaleIndex(row, leaf, to.leaves)] = scale;
  const int32_t chunks = Chunks(to.leaves);
  const int32_t first = to.leaves.chunk[leaf] * kChunkK;
  const int32_t padded = to.leaves.chunk[leaf + 1] * kChunkK - first;
  for (int32_t k = ThreadIndex(); k < padded; k += kThreads) {
    to.rows[ActivationIndex(row, first + k, chunks)] =
        ToF16(k < length ? value(begin + k) * inverse : 0);
  }
}

// By all threads of a block.
TUTTI_DEVICE void PrefetchRow(const float* row, int64_t count) {
  constexpr int kLineValues = 128 / sizeof(float);
  const int64_t at = int64_t{1} * ThreadIndex() * kLineValues;
  if (at < count) PrefetchLine(row + at);
}

// The row of the residual, with the values added, into shared memory and back. Several columns of a
// thread at a time, so that their leaves come from memory together.
TUTTI_DEVICE void AddToRow(const AddNormArgs& args, float* shared) {
  constexpr int kTogether = 4;
  float* const residual = args.residual + BlockX() * args.residual_stride;
  const float* const delta = args.delta + BlockX() * args.delta_stride;
  for (int64_t first = ThreadIndex(); first < args.cols; first += kTogether * kAddNormThreads) {
    float before[kTogether], added[kTogether];
    TUTTI_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const int64_t col = first + i * kAddNormThreads;
      before[i] = added[i] = 0;
      if (col >= args.cols) continue;
      before[i] = residual[col];
      if (args.leaves > 0) added[i] = SumOfLeaves(delta + col, args.leaf_stride, args.leaves);
    }
    TUTTI_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const int64_t col = first + i * kAddNormThreads;
      if (col >= args.cols) continue;
      if (args.leaves > 0) {
        before[i] = RoundValue(args.round_to, before[i] + added[i]);
        residual[col] = before[i];
      }
      shared[col] = before[i];
    }
  }
}

TUTTI_KERNEL_OF(kAddNormThreads) void AddNorm(TUTTI_PARAMETER AddNormArgs args) {
  auto* const row = reinterpret_cast<float*>(SharedMemory() + kAddNormReduceBytes);
  LetNextBegin();
  if (args.norm != nullptr) PrefetchRow(args.norm, args.cols);
  WaitForEarlier();
  AddToRow(args, row);
  if (args.norm == nullptr) return;
  SyncBlock();
  // As RmsNorm of rows.cu: kRowThreads partial sums. The other threads' zeros change nothing.
  float sum = 0;
  if (ThreadIndex() < kRowThreads) {
    for (int64_t i = ThreadIndex(); i < args.cols; i += kRowThreads) {
      sum = FusedMultiplyAdd(row[i], row[i], sum);
    }
  }
  sum = ReduceBlock<kAddNormThreads>(sum, Sum());
  const float inverse = InverseRms(sum, args.cols, args.epsilon);
  const auto value = [&](int64_t i) { return row[i] * inverse * args.norm[i]; };
  if (args.packed.rows == nullptr) {
    float* const out = args.out + BlockX() * args.out_stride;
    for (int64_t i = ThreadIndex(); i < args.cols; i += kAddNormThreads) out[i] = value(i);
  } else if (args.packed.bf16 != 0) {
    PackBf16(args.packed, BlockX(), ThreadIndex(), kAddNormThreads, value);
  } else {
    for (int32_t leaf = 0; leaf < args.packed.leaves.leaves; ++leaf) {
      PackF16Leaf<kAddNormThreads>(args.packed, BlockX(), leaf, value);
    }
  }
}

// Number k of a row's activated values.
struct Activated {
  const float* gate;
  const float* up;
  TUTTI_DEVICE float operator()(int64_t k) const { return SiluTimes(gate[k], up[k]); }
};
TUTTI_DEVICE Activated ActivatedOf(const SiluPackArgs& args) {
  const LeafMap& leaves = args.packed.leaves;
  const float* const gate = args.gate_up + BlockX() * args.stride;
  return {gate, gate + leaves.begin[leaves.leaves]};
}

// A thread per number.
TUTTI_KERNEL void SiluPackBf16(TUTTI_PARAMETER SiluPackArgs args) {
  const auto packed = static_cast<int32_t>(BlockY() * ThreadCount() + ThreadIndex());
  LetNextBegin();
  WaitForEarlier();
  PackBf16(args.packed, BlockX(), packed, Chunks(args.packed.leaves) * kChunkK, ActivatedOf(args));
}

// A block per row and leaf.
TUTTI_KERNEL void SiluPackF16(TUTTI_PARAMETER SiluPackArgs args) {
  LetNextBegin();
  WaitForEarlier();
  PackF16Leaf<kRowThreads>(args.packed, BlockX(), static_cast<int32_t>(BlockY()),
                           ActivatedOf(args));
}

// Pairs of a head that a lane turns.
constexpr int kPairsOfLane = kHeadDimMax / 2 / kWarp;

TUTTI_KERNEL_OF(kWarp) void TurnHeads(TUTTI_PARAMETER TurnArgs args) {
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

}  // namespace

bool FitsAddNorm(int64_t cols) {
  return kAddNormReduceBytes + cols * int64_t{sizeof(float)} <= kAddNormSharedBytesMax;
}

void LaunchAddNorm(const AddNormArgs& args, Launcher* launcher) {
  const auto bytes = static_cast<int>(kAddNormReduceBytes + args.cols * int64_t{sizeof(float)});
  LaunchEarly(&AddNorm, {args.rows}, kAddNormThreads, bytes, launcher, args);
}

void LaunchSiluPack(const SiluPackArgs& args, Launcher* launcher) {
  if (args.packed.bf16 == 0) {
    return LaunchEarly(&SiluPackF16, {args.rows, args.packed.leaves.leaves}, kRowThreads,
                       kReduceSharedBytes, launcher, args);
  }
  LaunchEarly(&SiluPackBf16, GridOver(args.rows, Chunks(args.packed.leaves) * kChunkK, kRowThreads),
              kRowThreads, 0, launcher, args);
}

void LaunchTurn(const TurnArgs& args, Launcher* launcher) {
  LaunchEarly(&TurnHeads, {args.rows, args.heads + 2 * args.layout.kv_heads}, kWarp, 0, launcher,
              args);
}

}  // namespace tutti::kernels::cuda
