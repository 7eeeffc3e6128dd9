#include "kernels/cuda/leaf_sums.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/product_stream.h"
#include "kernels/cuda/product_tile.h"

namespace tutti::kernels::cuda {
namespace {

// Where the sums of a leaf go: to `out` when it is the only one.
struct LeafTarget {
  float* out;
  int64_t stride;
};
TUTTI_DEVICE LeafTarget TargetOf(const ProductArgs& args, int64_t leaf) {
  if (args.leaves.leaves == 1) return {args.out, args.out_stride};
  return {args.leaf_sums + leaf * args.rows * args.out_features, args.out_features};
}

// One leaf: a warp is a block.
template <bool kBf16, bool kPlainRows, int kRowTiles>
TUTTI_KERNEL_OF(kWarp)
void StreamProduct(TUTTI_PARAMETER ProductArgs args) {
  float sum[kRowTiles][4] = {};
  StreamLeaf<kBf16, kPlainRows, kRowTiles, kStreamStages>(args, 0, SharedMemory(), sum);
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    StoreTile(sum[r], args.out, args.out_stride, r * kTileRows, args.rows,
              static_cast<int32_t>(BlockX()) * kTileOut, args.out_features);
  }
}

// Several leaves: a warp for each is a block, which adds them up.
template <bool kBf16, bool kPlainRows, int kRowTiles>
TUTTI_KERNEL_OF(kLeavesMax* kWarp)
void StreamLeaves(TUTTI_PARAMETER ProductArgs args) {
  constexpr int kStages = kLeafStreamStages[kRowTiles - 1];
  constexpr int kRingBytes = kStages * (2 + kRowTiles) * kPieceBytes;
  const int leaf = WarpIndex(), lane = Lane();
  char* const ring = SharedMemory() + leaf * kRingBytes;
  float sum[kRowTiles][4] = {};
  StreamLeaf<kBf16, kPlainRows, kRowTiles, kStages>(args, leaf, ring, sum);
  // The ring is empty: nothing is under way that the sums could meet. Other lanes may still read.
  SyncWarp();
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i)
      reinterpret_cast<float*>(ring)[(r * 4 + i) * kWarp + lane] = sum[r][i];
  }
  SyncBlock();
  // A warp for each of a lane's sums.
  for (int part = WarpIndex(); part < kRowTiles * 4; part += ThreadCount() / kWarp) {
    const int32_t row = part / 4 * kTileRows + 2 * (lane % 4) + part % 2;
    const int32_t out = static_cast<int32_t>(BlockX()) * kTileOut + lane / 4 + part % 4 / 2 * 8;
    if (row >= args.rows || out >= args.out_features) continue;
    const auto* const first = reinterpret_cast<const float*>(SharedMemory()) + part * kWarp + lane;
    args.out[row * args.out_stride + out] =
        SumOfLeaves(first, kRingBytes / int64_t{sizeof(float)}, args.leaves.leaves);
  }
}

// out = the tree of leaf_sums. A block for a row and a share of the outputs.
TUTTI_KERNEL void AddLeafSums(TUTTI_PARAMETER ProductArgs args) {
  const int64_t row = BlockX(), out = BlockY() * ThreadCount() + ThreadIndex();
  LetNextBegin();
  WaitForEarlier();
  if (out >= args.out_features) return;
  const LeafTarget first = TargetOf(args, 0);
  args.out[row * args.out_stride + out] =
      SumOfLeaves(first.out + row * first.stride + out, int64_t{1} * args.rows * args.out_features,
                  args.leaves.leaves);
}

// Shape of a block of the kernels for many rows: warps of 16 kOut features by 8 kRows rows, and how
// many chunks are under way.
template <int kOutTiles, int kRowTiles, int kOutWarps, int kRowWarps, int kRingStages>
struct TileShape {
  static constexpr int kOut = kOutTiles, kRows = kRowTiles, kWarpsOut = kOutWarps;
  static constexpr int kThreads = kOutWarps * kRowWarps * kWarp;
  static constexpr int kBlockOut = kOutTiles * kOutWarps;     // in tiles of 16 features
  static constexpr int kBlockRows = kRowTiles * kRowWarps;    // in tiles of 8 rows
  static constexpr int kPieces = 2 * kBlockOut + kBlockRows;  // of one stage
  static constexpr int kStages = kRingStages;
  static constexpr int kSharedBytes = kStages * kPieces * kPieceBytes;
};

// Blocks beside each other share their weights and differ in rows, so that a weight is read from
// memory once for all rows: x counts blocks of rows, of one leaf after the other where each leaf
// has a block of its own.
template <class Shape>
TUTTI_HOST_DEVICE int32_t RowBlocks(int32_t rows) {
  return (rows + Shape::kBlockRows * kTileRows - 1) / (Shape::kBlockRows * kTileRows);
}

// Copies one chunk of a block's weights, rows or both into a stage.
template <class Shape, bool kPlainRows, bool kWeights, bool kRows>
TUTTI_DEVICE void FetchTile(const ProductArgs& args, int64_t out_tile, int64_t row_tile,
                            int32_t chunk, char* stage) {
  constexpr int kCopies = kPieceBytes / 16;  // of one piece
  const int32_t chunks = Chunks(args.leaves);
  TUTTI_UNROLL
  for (int n = 0; n < Shape::kPieces * kCopies / Shape::kThreads; ++n) {
    const int i = n * Shape::kThreads + ThreadIndex();
    const int piece = i / kCopies, part = i % kCopies;
    if (!(piece < 2 * Shape::kBlockOut ? kWeights : kRows)) continue;
    const uint16_t* from;
    bool valid;
    if (piece < 2 * Shape::kBlockOut) {
      const int64_t tile = out_tile + piece / 2;
      valid = tile < args.out_tiles;
      if constexpr (kPlainRows) {
        const int64_t out = tile * kTileOut + piece % 2 * kPieceRows + part / 4;
        from = args.weight + PlainRowIndex(out, chunk * kChunkK, chunks) + part % 4 * 8;
      } else {
        from = args.weight + ((tile * chunks + chunk) * 2 + piece % 2) * kPieceValues + part * 8;
      }
    } else {
      const int64_t tile = row_tile + piece - 2 * Shape::kBlockOut;
      valid = tile * kTileRows + part / 4 < args.rows;
      from = args.in + (tile * chunks + chunk) * kPieceValues + part * 8;
    }
    CopyAsync16(stage + i * 16, valid ? from : args.weight, valid);
  }
  static_assert(Shape::kPieces * kCopies % Shape::kThreads == 0);
}

// A warp's share of one chunk, from its stage.
template <bool kBf16, class Shape>
TUTTI_DEVICE void MultiplyTile(const char* stage, int out_warp, int row_warp,
                               float (&sum)[Shape::kOut * Shape::kRows][4]) {
  const char* const own = stage + Lane() * 16;
  Words weights[Shape::kOut][2];
  TUTTI_UNROLL
  for (int i = 0; i < Shape::kOut; ++i) {
    TUTTI_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int piece = (out_warp * Shape::kOut + i) * 2 + half;
      weights[i][half] = *reinterpret_cast<const Words*>(own + piece * kPieceBytes);
    }
  }
  TUTTI_UNROLL
  for (int r = 0; r < Shape::kRows; ++r) {
    const int piece = 2 * Shape::kBlockOut + row_warp * Shape::kRows + r;
    const Words rows = *reinterpret_cast<const Words*>(own + piece * kPieceBytes);
    TUTTI_UNROLL
    for (int i = 0; i < Shape::kOut; ++i) {
      MultiplyChunk<kBf16>(sum[i * Shape::kRows + r], weights[i][0], weights[i][1], rows);
    }
  }
}

// The sums of a warp, whose first row is `row`: divided back, then stored from `feature` on.
template <bool kBf16, class Shape>
TUTTI_DEVICE void ScaleTile(const ProductArgs& args, int leaf, int32_t row,
                            float (&sum)[Shape::kOut * Shape::kRows][4]) {
  TUTTI_UNROLL
  for (int r = 0; r < Shape::kRows; ++r) {
    TUTTI_UNROLL
    for (int i = 0; i < Shape::kOut; ++i) {
      ScaleBack<kBf16>(args, leaf, row + r * kTileRows, sum[i * Shape::kRows + r]);
    }
  }
}
template <class Shape>
TUTTI_DEVICE void StoreTiles(const ProductArgs& args, const LeafTarget& target, int32_t row,
                             int32_t feature, const float (&sum)[Shape::kOut * Shape::kRows][4]) {
  TUTTI_UNROLL
  for (int i = 0; i < Shape::kOut; ++i) {
    TUTTI_UNROLL
    for (int r = 0; r < Shape::kRows; ++r) {
      StoreTile(sum[i * Shape::kRows + r], target.out, target.stride, row + r * kTileRows,
                args.rows, feature + i * kTileOut, args.out_features);
    }
  }
}

// Many rows: the warps of a block share weights and rows through shared memory. kLevels: 0 for
// blocks of one leaf; else blocks go through all leaves and add them up in registers.
template <bool kBf16, bool kPlainRows, class Shape, int kLevels>
TUTTI_KERNEL void TileProduct(TUTTI_PARAMETER ProductArgs args) {
  constexpr int kSums = Shape::kOut * Shape::kRows * 4;
  constexpr int kStageBytes = Shape::kPieces * kPieceBytes;
  constexpr int kAhead = Shape::kStages - 1;
  const int out_warp = WarpIndex() % Shape::kWarpsOut, row_warp = WarpIndex() / Shape::kWarpsOut;
  const int32_t leaves = args.leaves.leaves;
  const int32_t row_blocks = RowBlocks<Shape>(args.rows);
  const auto x = static_cast<int32_t>(BlockX());
  const int32_t own_leaf = kLevels == 0 ? x / row_blocks : 0;
  const int64_t row_tile = int64_t{1} * (x % row_blocks) * Shape::kBlockRows;
  const int64_t out_tile = BlockY() * Shape::kBlockOut;
  const int32_t first = args.leaves.chunk[own_leaf];
  const int32_t last = args.leaves.chunk[kLevels == 0 ? own_leaf + 1 : leaves];
  char* const ring = SharedMemory();

  const auto stage_of = [&](int32_t chunk) {
    return ring + (chunk - first) % Shape::kStages * kStageBytes;
  };

  float sum[Shape::kOut * Shape::kRows][4] = {};
  float(&flat)[kSums] = reinterpret_cast<float(&)[kSums]>(sum);
  float pending[kLevels == 0 ? 1 : kLevels][kSums];
  int32_t leaf = own_leaf;
  const auto row = static_cast<int32_t>((row_tile + row_warp * Shape::kRows) * kTileRows);
  // Ends every leaf whose last chunk was the one before `next`, the empty ones among them.
  const auto end_leaves = [&](int32_t next) {
    if constexpr (kLevels > 0) {
      while (leaf < leaves && args.leaves.chunk[leaf + 1] == next) {
        ScaleTile<kBf16, Shape>(args, leaf, row, sum);
        AddLeaf<kSums, kLevels>(leaf, flat, pending);
        ++leaf;
        if (leaf == leaves) break;
        TUTTI_UNROLL
        for (int i = 0; i < kSums; ++i) flat[i] = 0;
      }
    }
  };

  // As in StreamLeaf.
  LetNextBegin();
  for (int32_t chunk = first; chunk < first + kAhead && chunk < last; ++chunk) {
    FetchTile<Shape, kPlainRows, true, false>(args, out_tile, row_tile, chunk, stage_of(chunk));
  }
  WaitForEarlier();
  for (int32_t chunk = first; chunk < first + kAhead; ++chunk) {
    if (chunk < last) {
      FetchTile<Shape, kPlainRows, false, true>(args, out_tile, row_tile, chunk, stage_of(chunk));
    }
    CopyCommit();
  }
  end_leaves(first);
  for (int32_t chunk = first; chunk < last; ++chunk) {
    CopyWait<kAhead - 1>();
    SyncBlock();  // all copies are here, and no warp reads the stage before this one
    if (chunk + kAhead < last) {
      FetchTile<Shape, kPlainRows, true, true>(args, out_tile, row_tile, chunk + kAhead,
                                               stage_of(chunk + kAhead));
    }
    CopyCommit();
    MultiplyTile<kBf16, Shape>(stage_of(chunk), out_warp, row_warp, sum);
    end_leaves(chunk + 1);
  }
  if constexpr (kLevels == 0) ScaleTile<kBf16, Shape>(args, leaf, row, sum);
  const LeafTarget target =
      kLevels == 0 ? TargetOf(args, own_leaf) : LeafTarget{args.out, args.out_stride};
  const int64_t tile = out_tile + out_warp * Shape::kOut;
  StoreTiles<Shape>(args, target, row, static_cast<int32_t>(tile) * kTileOut, sum);
}

// 64 features by 64 rows, of one leaf. Blocks are few, so each has much under way.
using SmallTile = TileShape<2, 4, 2, 2, kSmallTileStages>;
// 128 by 128, one leaf: a warp's 64 by 64 ask shared memory for half of what 32 by 64 would, which
// tensor cores would have to wait for.
using LargeTile = TileShape<4, 8, 2, 2, kTileStages>;
// 128 by 64: the pending leaves need registers too.
using LargeLeafTile = TileShape<2, 4, 4, 2, kTileStages>;

template <bool kBf16, bool kPlainRows, int kRowTiles>
void LaunchStream(const ProductArgs& args, Launcher* launcher) {
  constexpr int kStageBytes = (2 + kRowTiles) * kPieceBytes;
  const int leaves = args.leaves.leaves;
  if (leaves == 1) {
    return LaunchEarly(&StreamProduct<kBf16, kPlainRows, kRowTiles>, {args.out_tiles}, kWarp,
                       kStreamStages * kStageBytes, launcher, args);
  }
  LaunchEarly(&StreamLeaves<kBf16, kPlainRows, kRowTiles>, {args.out_tiles}, leaves * kWarp,
              leaves * kLeafStreamStages[kRowTiles - 1] * kStageBytes, launcher, args);
}

template <bool kBf16, bool kPlainRows, class Shape, int kLevels>
void LaunchTiles(const ProductArgs& args, Launcher* launcher) {
  const Grid grid = {
      int64_t{1} * RowBlocks<Shape>(args.rows) * (kLevels == 0 ? args.leaves.leaves : 1),
      (args.out_tiles + Shape::kBlockOut - 1) / Shape::kBlockOut};
  LaunchEarly(&TileProduct<kBf16, kPlainRows, Shape, kLevels>, grid, Shape::kThreads,
              Shape::kSharedBytes, launcher, args);
}

template <bool kBf16, bool kPlainRows>
void LaunchOf(const ProductArgs& args, Launcher* launcher) {
  if constexpr (!kPlainRows) {
    const bool whole = args.leaves.leaves == 1;
    if (args.rows > kLeafSumRows) {
      if (whole) return LaunchTiles<kBf16, false, LargeTile, 0>(args, launcher);
      return LaunchTiles<kBf16, false, LargeLeafTile, kLeafLevels>(args, launcher);
    }
  }
  if (args.rows <= kTileRows) return LaunchStream<kBf16, kPlainRows, 1>(args, launcher);
  if (args.rows <= kStreamRows) return LaunchStream<kBf16, kPlainRows, 2>(args, launcher);
  LaunchTiles<kBf16, kPlainRows, SmallTile, 0>(args, launcher);
  if (args.out != nullptr) LaunchAddLeafSums(args, launcher);
}

// A thread computes one feature of up to this many rows.
constexpr int kPlainRows = 8;

TUTTI_KERNEL void PlainProduct(TUTTI_PARAMETER PlainProductArgs args) {
  const int64_t out = BlockX() * ThreadCount() + ThreadIndex();
  const int64_t first = BlockY() * kPlainRows;
  if (out >= args.out_features) return;
  float sum[kPlainRows], pending[kLeafLevels][kPlainRows] = {};
  for (int leaf = 0; leaf < args.leaves.leaves; ++leaf) {
    TUTTI_UNROLL
    for (int r = 0; r < kPlainRows; ++r) sum[r] = 0;
    for (int32_t k = args.leaves.begin[leaf]; k < args.leaves.begin[leaf + 1]; ++k) {
      const float weight = args.weight[PlainWeightIndex(out, k, args.padded_out)];
      TUTTI_UNROLL
      for (int r = 0; r < kPlainRows; ++r) {
        if (first + r >= args.rows) continue;
        sum[r] = FusedMultiplyAdd(args.in[(first + r) * args.in_stride + k], weight, sum[r]);
      }
    }
    AddLeaf<kPlainRows, kLeafLevels>(leaf, sum, pending);
  }
  TUTTI_UNROLL
  for (int r = 0; r < kPlainRows; ++r) {
    if (first + r < args.rows) args.out[(first + r) * args.out_stride + out] = sum[r];
  }
}

}  // namespace

void LaunchProduct(DType type, const ProductArgs& args, Launcher* launcher) {
  const bool bf16 = type == DType::kBF16;
  if (args.plain_rows != 0) {
    return bf16 ? LaunchOf<true, true>(args, launcher) : LaunchOf<false, true>(args, launcher);
  }
  return bf16 ? LaunchOf<true, false>(args, launcher) : LaunchOf<false, false>(args, launcher);
}

void LaunchAddLeafSums(const ProductArgs& args, Launcher* launcher) {
  if (LeafSumCount(args.leaves, args.rows, args.out_features) == 0) return;
  LaunchEarly(&AddLeafSums, {args.rows, (args.out_features + kRowThreads - 1) / kRowThreads},
              kRowThreads, 0, launcher, args);
}

void LaunchPlainProduct(const PlainProductArgs& args, Launcher* launcher) {
  const Grid grid = {(args.out_features + kRowThreads - 1) / kRowThreads,
                     (args.rows + kPlainRows - 1) / kPlainRows};
  Launch(&PlainProduct, grid, kRowThreads, 0, launcher, args);
}

}  // namespace tutti::kernels::cuda
