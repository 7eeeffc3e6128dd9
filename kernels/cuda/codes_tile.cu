// Products of many rows with codes: the warps of a block share codes and rows.
#include "kernels/cuda/codes.h"
#include "kernels/cuda/codes_stage.h"

namespace tutti::kernels::cuda {
namespace {

// Warps of a unit of outputs by 8 kRowTiles rows.
template <int kRowTiles, int kOutWarps, int kRowWarps, int kRingStages>
struct CodesTile {
  static constexpr int kRows = kRowTiles, kUnits = kOutWarps;
  static constexpr int kThreads = kOutWarps * kRowWarps * kWarp;
  static constexpr int kBlockRows = kRowTiles * kRowWarps;  // in tiles of 8 rows
  static constexpr int kStages = kRingStages;
};
template <CodeKind kKind, class Shape>
struct CodesTileStage {
  static constexpr int kRowsAt = Shape::kUnits * UnitStage<kKind>::kBytes;
  static constexpr int kBytes = kRowsAt + Shape::kBlockRows * kPieceBytes;
};

template <class Shape>
TUTTI_HOST_DEVICE int32_t RowBlocksOf(int32_t rows) {
  return (rows + Shape::kBlockRows * kTileRows - 1) / (Shape::kBlockRows * kTileRows);
}

// Copies one chunk of a block's codes, rows or both into a stage.
//   fresh: it is the first of its strip
template <CodeKind kKind, class Shape, bool kCodes, bool kRows>
TUTTI_DEVICE void FetchCodesTile(const CodesArgs& args, int64_t first_unit, int64_t row_tile,
                                 int32_t chunk, int32_t strip, bool fresh, char* stage) {
  const int32_t chunks = Chunks(args.leaves);
  if constexpr (kCodes) {
    constexpr int kCopies = UnitStage<kKind>::kCodeBytes / 16;
    TUTTI_UNROLL
    for (int n = 0; n < (Shape::kUnits * kCopies - 1) / Shape::kThreads + 1; ++n) {
      const int i = n * Shape::kThreads + ThreadIndex();
      if (i >= Shape::kUnits * kCopies) continue;
      const int64_t unit = first_unit + i / kCopies;
      const bool valid = unit * kUnitOut < args.out_features;
      const uint8_t* const from =
          args.codes + (unit * chunks + chunk) * UnitStage<kKind>::kCodeBytes + i % kCopies * 16;
      CopyAsync16(stage + i / kCopies * UnitStage<kKind>::kBytes + i % kCopies * 16,
                  valid ? from : args.codes, valid);
    }
    constexpr int kBeside = kBesideCopies<kKind>;
    if constexpr (kBeside > 0) {
      const int unit = ThreadIndex() / kBeside, part = ThreadIndex() % kBeside;
      const bool valid = (first_unit + unit) * kUnitOut < args.out_features;
      const uint8_t* const beside =
          BesideOf<kKind>(args, valid ? first_unit + unit : 0, chunk, strip);
      if (unit < Shape::kUnits && HasOffsets<kKind>(args, fresh)) {
        CopyAsync16(
            stage + unit * UnitStage<kKind>::kBytes + UnitStage<kKind>::kCodeBytes + part * 16,
            beside + part * 16, valid);
      }
    }
  }
  if constexpr (kRows) {
    constexpr int kCopies = kPieceBytes / 16;
    TUTTI_UNROLL
    for (int n = 0; n < Shape::kBlockRows * kCopies / Shape::kThreads; ++n) {
      const int i = n * Shape::kThreads + ThreadIndex();
      const int64_t tile = row_tile + i / kCopies;
      const bool valid = tile * kTileRows + i % kCopies / 4 < args.rows;
      const uint16_t* const from =
          args.in + (tile * chunks + chunk) * kPieceValues + i % kCopies * 8;
      CopyAsync16(stage + CodesTileStage<kKind, Shape>::kRowsAt + i * 16, valid ? from : args.in,
                  valid);
    }
    static_assert(Shape::kBlockRows * kCopies % Shape::kThreads == 0);
  }
}

// Sums of leaves that wait for their neighbours: the last level, to which a leaf comes once, in
// shared memory, as there are no registers for it.
template <int kCount, int kLevels, int kThreads>
struct WaitingLeaves {
  float (&values)[kLevels - 1][kCount];
  float* shared;  // [kCount][kThreads]
  TUTTI_DEVICE float Load(int level, int i) const {
    return level == kLevels - 1 ? shared[i * kThreads + ThreadIndex()] : values[level][i];
  }
  TUTTI_DEVICE void Store(int level, int i, float sum) {
    if (level == kLevels - 1) {
      shared[i * kThreads + ThreadIndex()] = sum;
    } else {
      values[level][i] = sum;
    }
  }
};
template <class Shape>
inline constexpr int kTileSums = kUnitTiles* Shape::kRows * 4;

// A thread of a block of the product. kLevels: 0 for blocks of one leaf; else blocks go through all
// leaves and add them up in registers.
template <CodeKind kKind, class Shape, int kLevels>
struct ManyRows {
  using Stage = CodesTileStage<kKind, Shape>;
  static constexpr int kSums = kTileSums<Shape>, kAhead = Shape::kStages - 1;

  const CodesArgs& args;
  const int out_warp = WarpIndex() % Shape::kUnits, row_warp = WarpIndex() / Shape::kUnits;
  const int32_t row_blocks = RowBlocksOf<Shape>(args.rows), x = static_cast<int32_t>(BlockX());
  const int32_t own_leaf = kLevels == 0 ? x / row_blocks : 0;
  const int32_t end_leaf = kLevels == 0 ? own_leaf + 1 : args.leaves.leaves;
  const int64_t row_tile = int64_t{1} * (x % row_blocks) * Shape::kBlockRows;
  const int64_t first_unit = BlockY() * Shape::kUnits, unit = first_unit + out_warp;
  const int32_t first = args.leaves.chunk[own_leaf], last = args.leaves.chunk[end_leaf];
  char* const ring = SharedMemory();
  // The strip that is multiplied and the chunk behind it, and those of the chunk that is fetched.
  int32_t leaf = own_leaf, strip = args.leaf_strip[own_leaf], strip_begin = 0, strip_end = first;
  uint32_t offset[kRowsOfLane] = {};
  int32_t ahead_strip = strip, ahead_end = first < last ? args.strip_chunk[strip + 1] : 0;

  TUTTI_DEVICE char* StageOf(int32_t chunk) const {
    return ring + (chunk - first) % Shape::kStages * Stage::kBytes;
  }
  template <bool kCodes, bool kRows>
  TUTTI_DEVICE void Fetch(int32_t chunk) {
    if (chunk >= last) return;
    const bool next = kCodes && chunk == ahead_end;
    if (next) ahead_end = args.strip_chunk[++ahead_strip + 1];
    FetchCodesTile<kKind, Shape, kCodes, kRows>(args, first_unit, row_tile, chunk, ahead_strip,
                                                next || chunk == first, StageOf(chunk));
  }
  TUTTI_DEVICE void EnterStrip(float (&scale)[kRowsOfLane]) {
    if (strip >= args.leaf_strip[end_leaf]) return;
    strip_begin = strip_end;
    strip_end = args.strip_chunk[strip + 1];
    if (unit * kUnitOut < args.out_features) LoadScales(args, unit, strip, scale);
  }

  TUTTI_DEVICE void Multiply(int32_t chunk, float (&part)[kUnitTiles][Shape::kRows][4]) {
    const char* const stage = StageOf(chunk);
    const char* const codes = stage + out_warp * UnitStage<kKind>::kBytes;
    if (HasOffsets<kKind>(args, chunk == strip_begin)) {
      LoadOffsets<kKind>(codes + UnitStage<kKind>::kCodeBytes, offset);
    }
    Words weights[kRowsOfLane];
    ExpandUnit<kKind>(codes, offset, weights);
    TUTTI_UNROLL
    for (int r = 0; r < Shape::kRows; ++r) {
      const Words rows = *reinterpret_cast<const Words*>(
          stage + Stage::kRowsAt + (row_warp * Shape::kRows + r) * kPieceBytes + Lane() * 16);
      TUTTI_UNROLL
      for (int i = 0; i < kUnitTiles; ++i) {
        MultiplyChunk<true>(part[i][r], weights[2 * i], weights[2 * i + 1], rows);
      }
    }
  }
  // Adds a strip, whose sums begin anew.
  TUTTI_DEVICE static void AddStrip(const float (&scale)[kRowsOfLane],
                                    float (&part)[kUnitTiles][Shape::kRows][4],
                                    float (&sum)[kSums]) {
    TUTTI_UNROLL
    for (int n = 0; n < kSums; ++n) {
      float& own = part[n / 4 / Shape::kRows][n / 4 % Shape::kRows][n % 4];
      sum[n] = FusedMultiplyAdd(own, scale[OutputOfPart(n / 4 / Shape::kRows, n % 4)], sum[n]);
      own = 0;
    }
  }
  // Ends every leaf whose last strip was the one before `strip`, the empty ones among them.
  template <class Pending>
  TUTTI_DEVICE void EndLeaves(float (&sum)[kSums], Pending&& pending) {
    while (leaf < args.leaves.leaves && args.leaf_strip[leaf + 1] <= strip) {
      AddLeafTo<kSums, kLevels>(leaf, sum, pending);
      if (++leaf == args.leaves.leaves) break;
      TUTTI_UNROLL
      for (float& value : sum) value = 0;
    }
  }

  TUTTI_DEVICE void StoreSums(const float (&sum)[kSums]) const {
    const bool in_memory = kLevels == 0 && args.leaves.leaves > 1;
    float* const out = in_memory ? args.leaf_sums + own_leaf * args.leaf_stride : args.out;
    const int64_t stride = in_memory ? args.leaf_row_stride : args.out_stride;
    TUTTI_UNROLL
    for (int n = 0; n < kSums; n += 4) {
      const float tile[4] = {sum[n], sum[n + 1], sum[n + 2], sum[n + 3]};
      const int64_t row = row_tile + row_warp * Shape::kRows + n / 4 % Shape::kRows;
      StoreTile(tile, out, stride, static_cast<int32_t>(row) * kTileRows, args.rows,
                static_cast<int32_t>(unit) * kUnitOut + n / 4 / Shape::kRows * kTileOut,
                args.out_features);
    }
  }
};

template <CodeKind kKind, class Shape, int kLevels>
TUTTI_KERNEL_OF(Shape::kThreads)
void ManyRowsOfCodes(TUTTI_PARAMETER CodesArgs args) {
  using Rows = ManyRows<kKind, Shape, kLevels>;
  constexpr int kSums = Rows::kSums, kAhead = Rows::kAhead;
  LetNextBegin();
  Rows rows{args};
  float part[kUnitTiles][Shape::kRows][4] = {}, sum[kSums] = {}, scale[kRowsOfLane] = {};
  float pending[kLevels == 0 ? 1 : kLevels - 1][kSums];
  const auto end_leaves = [&] {
    if constexpr (kLevels > 0) {
      auto* const waiting =
          reinterpret_cast<float*>(rows.ring + Shape::kStages * Rows::Stage::kBytes);
      rows.EndLeaves(sum, WaitingLeaves<kSums, kLevels, Shape::kThreads>{pending, waiting});
    }
  };
  for (int32_t n = 0; n < kAhead; ++n) rows.template Fetch<true, false>(rows.first + n);
  rows.EnterStrip(scale);
  LoadOffsets<kKind>(nullptr, rows.offset);
  WaitForEarlier();
  for (int32_t n = 0; n < kAhead; ++n) {
    rows.template Fetch<false, true>(rows.first + n);
    CopyCommit();
  }
  for (int32_t chunk = rows.first; chunk < rows.last; ++chunk) {
    CopyWait<kAhead - 1>();
    SyncBlock();  // all copies are here, and no warp reads the stage before this one
    rows.template Fetch<true, true>(chunk + kAhead);
    CopyCommit();
    rows.Multiply(chunk, part);
    if (chunk + 1 < rows.strip_end) continue;
    end_leaves();
    Rows::AddStrip(scale, part, sum);
    ++rows.strip;
    rows.EnterStrip(scale);
  }
  end_leaves();
  rows.StoreSums(sum);
}

// 64 outputs by 64 rows, of one leaf. Blocks are few, so each has much under way.
using SmallCodesTile = CodesTile<4, 2, 2, kSmallTileStages>;
// 128 by 128, one leaf.
using LargeCodesTile = CodesTile<8, 4, 2, kTileStages>;
// 128 by 64: the pending leaves need registers too.
using LargeLeafCodesTile = CodesTile<4, 4, 2, kTileStages>;

template <CodeKind kKind, class Shape, int kLevels>
void LaunchMany(const CodesArgs& args, Launcher* launcher) {
  const Grid grid = {
      int64_t{1} * RowBlocksOf<Shape>(args.rows) * (kLevels == 0 ? args.leaves.leaves : 1),
      (UnitsOf(args.out_features) + Shape::kUnits - 1) / Shape::kUnits};
  constexpr int kWaiting = kLevels == 0 ? 0 : kTileSums<Shape> * Shape::kThreads * 4;
  LaunchEarly(&ManyRowsOfCodes<kKind, Shape, kLevels>, grid, Shape::kThreads,
              Shape::kStages * CodesTileStage<kKind, Shape>::kBytes + kWaiting, launcher, args);
}

template <CodeKind kKind>
void LaunchManyOf(const CodesArgs& args, Launcher* launcher) {
  if (args.rows <= kLeafSumRows) return LaunchMany<kKind, SmallCodesTile, 0>(args, launcher);
  if (args.leaves.leaves == 1) return LaunchMany<kKind, LargeCodesTile, 0>(args, launcher);
  LaunchMany<kKind, LargeLeafCodesTile, kLeafLevels>(args, launcher);
}

}  // namespace

void LaunchManyRowsOfCodes(const CodesArgs& args, Launcher* launcher) {
  switch (args.kind) {
    case CodeKind::kInt4:
      return LaunchManyOf<CodeKind::kInt4>(args, launcher);
    case CodeKind::kInt8:
      return LaunchManyOf<CodeKind::kInt8>(args, launcher);
    case CodeKind::kE2m1:
      return LaunchManyOf<CodeKind::kE2m1>(args, launcher);
    case CodeKind::kE4m3:
      return LaunchManyOf<CodeKind::kE4m3>(args, launcher);
    case CodeKind::kNvfp4:
      return LaunchManyOf<CodeKind::kNvfp4>(args, launcher);
  }
}

}  // namespace tutti::kernels::cuda
