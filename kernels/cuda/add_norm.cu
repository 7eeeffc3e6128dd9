#include "kernels/cuda/joined.h"
#include "kernels/cuda/leaf_sums.h"
#include "kernels/cuda/packed_rows.h"

namespace tutti::kernels::cuda {
namespace {

constexpr int kAddNormReduceBytes = kAddNormThreads / kWarp * 16;

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

// Any rows into any target.
TUTTI_RESIDENT_KERNEL_OF(kAddNormThreads, 1) void AddNorm(TUTTI_PARAMETER AddNormArgs args) {
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

// What follows is the same by 16 bytes: a thread has four columns at a time, kThreads * 4 apart.

constexpr int kFoursReduceBytes = kRowThreads / kWarp * 4;

TUTTI_DEVICE Fours& FoursAt(float* row, int64_t col) {
  return *reinterpret_cast<Fours*>(row + col);
}
TUTTI_DEVICE const Fours& FoursAt(const float* row, int64_t col) {
  return *reinterpret_cast<const Fours*>(row + col);
}

// SumOfLeaves of four columns.
TUTTI_DEVICE Fours FoursOfLeaves(const float* first, int64_t stride, int leaves) {
  Fours part[kLeavesMax];
  TUTTI_UNROLL
  for (int leaf = 0; leaf < kLeavesMax; ++leaf) {
    part[leaf] = leaf < leaves ? FoursAt(first, leaf * stride) : Fours{};
  }
  float sum[4] = {}, pending[kLeafLevels][4] = {};
  TUTTI_UNROLL
  for (int leaf = 0; leaf < kLeavesMax; ++leaf) {
    if (leaf >= leaves) continue;
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) sum[i] = part[leaf].v[i];
    AddLeaf<4, kLeafLevels>(leaf, sum, pending);
  }
  return {{sum[0], sum[1], sum[2], sum[3]}};
}

// As AddToRow.
template <int kThreads, DType kRoundTo>
TUTTI_DEVICE void AddFoursToRow(const AddNormArgs& args, float* shared) {
  constexpr int kTogether = 2;  // of one leaf
  const auto cols = static_cast<int32_t>(args.cols);
  const int32_t mine = 4 * ThreadIndex();
  float* const residual = args.residual + BlockX() * args.residual_stride;
  const float* const delta = args.delta + BlockX() * args.delta_stride;
  const auto put = [&](int32_t col, Fours before, const Fours& added) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) before.v[i] = before.v[i] + added.v[i];
    RoundValues(kRoundTo, &before);
    FoursAt(residual, col) = before;
    FoursAt(shared, col) = before;
  };
  if (kThreads == kAddNormThreads && args.leaves > 1) {
    TUTTI_KEEP_LOOP
    for (int32_t col = mine; col < cols; col += 4 * kThreads) {
      const Fours before = FoursAt(residual, col);
      put(col, before, FoursOfLeaves(delta + col, args.leaf_stride, args.leaves));
    }
    return;
  }
  TUTTI_KEEP_LOOP
  for (int32_t first = mine; first < cols; first += kTogether * 4 * kThreads) {
    Fours before[kTogether] = {}, added[kTogether] = {};
    TUTTI_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const int32_t col = first + i * 4 * kThreads;
      if (col >= cols) continue;
      before[i] = FoursAt(residual, col);
      if (args.leaves > 0) added[i] = FoursAt(delta, col);
    }
    TUTTI_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const int32_t col = first + i * 4 * kThreads;
      if (col >= cols) continue;
      if (args.leaves > 0) {
        put(col, before[i], added[i]);
      } else {
        FoursAt(shared, col) = before[i];
      }
    }
  }
}

// The sum of squares as RmsNorm of rows.cu has it: kRowThreads partial sums, in the same tree.
TUTTI_DEVICE float SumOfSquares(const float* row, int32_t cols, float* parts) {
  constexpr int kTogether = 8;
  if (ThreadIndex() < kRowThreads) {
    float sum = 0;
    TUTTI_KEEP_LOOP
    for (int32_t first = ThreadIndex(); first < cols; first += kTogether * kRowThreads) {
      float values[kTogether];
      TUTTI_UNROLL
      for (int j = 0; j < kTogether; ++j) {
        const int32_t i = first + j * kRowThreads;
        values[j] = i < cols ? row[i] : 0;  // a square of 0 changes no sum
      }
      TUTTI_UNROLL
      for (int j = 0; j < kTogether; ++j) sum = FusedMultiplyAdd(values[j], values[j], sum);
    }
    sum = ReduceWarp(sum, Sum());
    if (Lane() == 0) parts[WarpIndex()] = sum;
  }
  SyncBlock();
  float sum = parts[0];
  TUTTI_UNROLL
  for (int warp = 1; warp < kRowThreads / kWarp; ++warp) sum = sum + parts[warp];
  return sum;
}

// A block per row.   REQUIRES: TakesManyRows
template <int kThreads, DType kRoundTo>
TUTTI_KERNEL_OF(kThreads)
void AddNormFours(TUTTI_PARAMETER AddNormArgs args) {
  static_assert(kThreads >= kRowThreads);
  auto* const parts = reinterpret_cast<float*>(SharedMemory());
  float* const row = parts + kFoursReduceBytes / sizeof(float);
  float* const norm = row + args.cols;
  const auto cols = static_cast<int32_t>(args.cols);
  const int32_t mine = 4 * ThreadIndex();
  LetNextBegin();
  if (args.norm != nullptr) PrefetchRow(args.norm, args.cols);
  WaitForEarlier();
  if (args.norm != nullptr) {
    TUTTI_KEEP_LOOP
    for (int32_t col = mine; col < cols; col += 4 * kThreads) {
      CopyAsync16(norm + col, args.norm + col, true);
    }
  }
  CopyCommit();
  AddFoursToRow<kThreads, kRoundTo>(args, row);
  CopyWait<0>();
  if (args.norm == nullptr) return;
  SyncBlock();
  const float inverse = InverseRms(SumOfSquares(row, cols, parts), args.cols, args.epsilon);
  const int32_t chunks = Chunks(args.packed.leaves);
  const int32_t end = args.packed.rows == nullptr ? cols : chunks * kChunkK;
  TUTTI_KEEP_LOOP
  for (int32_t col = mine; col < end; col += 4 * kThreads) {
    Fours out = {};
    if (col < cols) {
      const Fours x = FoursAt(row, col), weight = FoursAt(norm, col);
      TUTTI_UNROLL
      for (int i = 0; i < 4; ++i) out.v[i] = x.v[i] * inverse * weight.v[i];
    }
    if (args.packed.rows == nullptr) {
      FoursAt(args.out + BlockX() * args.out_stride, col) = out;
    } else {
      StoreFours(args.packed, BlockX(), col, chunks, out);
    }
  }
}

template <DType kRoundTo>
void LaunchFours(const AddNormArgs& args, Launcher* launcher) {
  const auto bytes = static_cast<int>(kFoursReduceBytes + 2 * args.cols * int64_t{sizeof(float)});
  if (args.rows <= kJoinedRows) {
    LaunchEarly(&AddNormFours<kAddNormThreads, kRoundTo>, {args.rows}, kAddNormThreads, bytes,
                launcher, args);
  } else {
    LaunchEarly(&AddNormFours<kAddNormManyThreads, kRoundTo>, {args.rows}, kAddNormManyThreads,
                bytes, launcher, args);
  }
}

}  // namespace

bool FitsAddNorm(int64_t cols) {
  return kAddNormReduceBytes + cols * int64_t{sizeof(float)} <= kAddNormSharedBytesMax;
}

bool TakesManyRows(const AddNormArgs& args) {
  if (args.cols % 4 != 0 || !HasFours(args.residual, args.residual_stride)) return false;
  if (args.leaves > 0 && !HasFours(args.delta, args.delta_stride)) return false;
  // Many rows have been added up by their product.
  if (args.leaves > 1 && (args.leaf_stride % 4 != 0 || args.rows > kJoinedRows)) return false;
  if (kFoursReduceBytes + 2 * args.cols * int64_t{sizeof(float)} > kAddNormSharedBytesMax) {
    return false;
  }
  if (args.norm == nullptr) return true;
  if (!HasFours(args.norm, 0)) return false;
  if (args.packed.rows == nullptr) return HasFours(args.out, args.out_stride);
  return args.packed.bf16 != 0 && args.packed.leaves.leaves == 1;
}

void LaunchAddNorm(const AddNormArgs& args, Launcher* launcher) {
  if (!TakesManyRows(args)) {
    const auto bytes = static_cast<int>(kAddNormReduceBytes + args.cols * int64_t{sizeof(float)});
    return LaunchEarly(&AddNorm, {args.rows}, kAddNormThreads, bytes, launcher, args);
  }
  switch (args.round_to) {
    case DType::kBF16:
      return LaunchFours<DType::kBF16>(args, launcher);
    case DType::kF16:
      return LaunchFours<DType::kF16>(args, launcher);
    default:
      return LaunchFours<DType::kF32>(args, launcher);
  }
}

}  // namespace tutti::kernels::cuda
