#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/product.h"

namespace tutti::kernels::cuda {
namespace {

struct alignas(16) Words {
  uint32_t w[4];
};

constexpr int kPieceBytes = kPieceValues * 2;

// One lane's share of a 16 x 32 tile of weights and of an 8 x 32 tile of activations.
template <bool kBf16>
TUTTI_DEVICE void MultiplyChunk(float (&sum)[4], const Words& upper, const Words& lower,
                                const Words& rows) {
  Mma<kBf16>(sum, {upper.w[0], lower.w[0], upper.w[1], lower.w[1]}, {rows.w[0], rows.w[1]});
  Mma<kBf16>(sum, {upper.w[2], lower.w[2], upper.w[3], lower.w[3]}, {rows.w[2], rows.w[3]});
}

// Writes one instruction's outputs: `out` of 16 features from `feature`, 8 rows from `row`.
TUTTI_DEVICE void StoreTile(const float (&sum)[4], float* out, int64_t stride, int32_t row,
                            int32_t rows, int32_t feature, int32_t features) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int32_t r = row + 2 * t + i % 2, n = feature + g + 8 * (i / 2);
    if (r < rows && n < features) out[r * stride + n] = sum[i];
  }
}

// Few rows: a warp streams 16 features of one leaf. What a lane multiplies is exactly what it
// copied, so nothing waits for another lane.
template <bool kBf16, int kRowTiles>
TUTTI_KERNEL void StreamProduct(TUTTI_PARAMETER ProductArgs args) {
  constexpr int kStageBytes = (2 + kRowTiles) * kPieceBytes;
  const int lane = Lane(), leaf = static_cast<int>(BlockY());
  const int32_t chunks = Chunks(args.leaves);
  const int32_t first = args.leaves.chunk[leaf], last = args.leaves.chunk[leaf + 1];
  const uint16_t* const weight = args.weight + BlockX() * chunks * 2 * kPieceValues + lane * 8;
  const uint16_t* const in = args.in + lane * 8;
  char* const ring = SharedMemory() + lane * 16;

  const auto fetch = [&](int32_t chunk) {
    if (chunk < last) {
      char* const stage = ring + (chunk - first) % kStreamStages * kStageBytes;
      TUTTI_UNROLL
      for (int half = 0; half < 2; ++half) {
        CopyAsync16(stage + half * kPieceBytes, weight + (chunk * 2 + half) * kPieceValues, true);
      }
      TUTTI_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        const bool valid = r * kTileRows + lane / 4 < args.rows;
        const int64_t piece = static_cast<int64_t>(r) * chunks + chunk;
        CopyAsync16(stage + (2 + r) * kPieceBytes, valid ? in + piece * kPieceValues : in, valid);
      }
    }
    CopyCommit();
  };

  float sum[kRowTiles][4] = {};
  for (int32_t chunk = first; chunk < first + kStreamStages - 1; ++chunk) fetch(chunk);
  for (int32_t chunk = first; chunk < last; ++chunk) {
    CopyWait<kStreamStages - 2>();
    const char* const stage = ring + (chunk - first) % kStreamStages * kStageBytes;
    const Words upper = *reinterpret_cast<const Words*>(stage);
    const Words lower = *reinterpret_cast<const Words*>(stage + kPieceBytes);
    TUTTI_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      const Words rows = *reinterpret_cast<const Words*>(stage + (2 + r) * kPieceBytes);
      MultiplyChunk<kBf16>(sum[r], upper, lower, rows);
    }
    fetch(chunk + kStreamStages - 1);
  }
  const bool whole = args.leaves.leaves == 1;
  float* const out =
      whole ? args.out : args.leaf_sums + int64_t{1} * leaf * args.rows * args.out_features;
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    StoreTile(sum[r], out, whole ? args.out_stride : args.out_features, r * kTileRows, args.rows,
              static_cast<int32_t>(BlockX()) * kTileOut, args.out_features);
  }
}

// out = the tree of leaf_sums.
TUTTI_KERNEL void AddLeafSums(TUTTI_PARAMETER ProductArgs args) {
  const int64_t count = int64_t{1} * args.rows * args.out_features;
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  if (i >= count) return;
  float sum[1] = {}, pending[kLeafLevels][1] = {};
  for (int leaf = 0; leaf < args.leaves.leaves; ++leaf) {
    sum[0] = args.leaf_sums[leaf * count + i];
    AddLeaf<1, kLeafLevels>(leaf, sum, pending);
  }
  args.out[i / args.out_features * args.out_stride + i % args.out_features] = sum[0];
}

// Shape of a block of the kernels for many rows: warps of 16 kOut features by 8 kRows rows.
template <int kOutTiles, int kRowTiles, int kOutWarps, int kRowWarps>
struct TileShape {
  static constexpr int kOut = kOutTiles, kRows = kRowTiles, kWarpsOut = kOutWarps;
  static constexpr int kThreads = kOutWarps * kRowWarps * kWarp;
  static constexpr int kBlockOut = kOutTiles * kOutWarps;     // in tiles of 16 features
  static constexpr int kBlockRows = kRowTiles * kRowWarps;    // in tiles of 8 rows
  static constexpr int kPieces = 2 * kBlockOut + kBlockRows;  // of one stage
  static constexpr int kSharedBytes = kTileStages * kPieces * kPieceBytes;
};

// Copies one chunk of a block's weights and rows into a stage.
template <class Shape>
TUTTI_DEVICE void FetchTile(const ProductArgs& args, int32_t chunk, char* stage) {
  constexpr int kCopies = kPieceBytes / 16;  // of one piece
  const int32_t chunks = Chunks(args.leaves);
  for (int i = ThreadIndex(); i < Shape::kPieces * kCopies; i += Shape::kThreads) {
    const int piece = i / kCopies, part = i % kCopies;
    const uint16_t* from;
    bool valid;
    if (piece < 2 * Shape::kBlockOut) {
      const int64_t tile = BlockX() * Shape::kBlockOut + piece / 2;
      valid = tile < args.out_tiles;
      from = args.weight + ((tile * chunks + chunk) * 2 + piece % 2) * kPieceValues + part * 8;
    } else {
      const int64_t tile = BlockY() * Shape::kBlockRows + piece - 2 * Shape::kBlockOut;
      valid = tile * kTileRows + part / 4 < args.rows;
      from = args.in + (tile * chunks + chunk) * kPieceValues + part * 8;
    }
    CopyAsync16(stage + i * 16, valid ? from : args.weight, valid);
  }
}

// Many rows: the warps of a block share weights and rows through shared memory. kLevels: 0 for
// products of one leaf.
template <bool kBf16, class Shape, int kLevels>
TUTTI_KERNEL void TileProduct(TUTTI_PARAMETER ProductArgs args) {
  constexpr int kSums = Shape::kOut * Shape::kRows * 4;
  constexpr int kStageBytes = Shape::kPieces * kPieceBytes;
  const int lane = Lane();
  const int out_warp = WarpIndex() % Shape::kWarpsOut, row_warp = WarpIndex() / Shape::kWarpsOut;
  const int32_t chunks = Chunks(args.leaves), leaves = args.leaves.leaves;
  char* const ring = SharedMemory();

  const auto fetch = [&](int32_t chunk) {
    if (chunk < chunks) {
      FetchTile<Shape>(args, chunk, ring + chunk % kTileStages * kStageBytes);
    }
    CopyCommit();
  };

  float sum[Shape::kOut * Shape::kRows][4] = {};
  float(&flat)[kSums] = reinterpret_cast<float(&)[kSums]>(sum);
  float pending[kLevels == 0 ? 1 : kLevels][kSums];
  int32_t leaf = 0;
  // Ends every leaf whose last chunk was the one before `next`, the empty ones among them.
  const auto end_leaves = [&](int32_t next) {
    if constexpr (kLevels > 0) {
      while (leaf < leaves && args.leaves.chunk[leaf + 1] == next) {
        AddLeaf<kSums, kLevels>(leaf, flat, pending);
        ++leaf;
        if (leaf == leaves) break;
        TUTTI_UNROLL
        for (int i = 0; i < kSums; ++i) flat[i] = 0;
      }
    }
  };

  for (int32_t chunk = 0; chunk < kTileStages - 1; ++chunk) fetch(chunk);
  end_leaves(0);
  for (int32_t chunk = 0; chunk < chunks; ++chunk) {
    CopyWait<kTileStages - 2>();
    SyncBlock();  // everybody's copies are here, and nobody reads the stage before this one
    fetch(chunk + kTileStages - 1);
    const char* const stage = ring + chunk % kTileStages * kStageBytes + lane * 16;
    Words weights[Shape::kOut][2];
    TUTTI_UNROLL
    for (int i = 0; i < Shape::kOut; ++i) {
      TUTTI_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int piece = (out_warp * Shape::kOut + i) * 2 + half;
        weights[i][half] = *reinterpret_cast<const Words*>(stage + piece * kPieceBytes);
      }
    }
    TUTTI_UNROLL
    for (int r = 0; r < Shape::kRows; ++r) {
      const int piece = 2 * Shape::kBlockOut + row_warp * Shape::kRows + r;
      const Words rows = *reinterpret_cast<const Words*>(stage + piece * kPieceBytes);
      TUTTI_UNROLL
      for (int i = 0; i < Shape::kOut; ++i) {
        MultiplyChunk<kBf16>(sum[i * Shape::kRows + r], weights[i][0], weights[i][1], rows);
      }
    }
    end_leaves(chunk + 1);
  }
  TUTTI_UNROLL
  for (int i = 0; i < Shape::kOut; ++i) {
    TUTTI_UNROLL
    for (int r = 0; r < Shape::kRows; ++r) {
      const int64_t tile = BlockX() * Shape::kBlockOut + out_warp * Shape::kOut + i;
      const int64_t rows = BlockY() * Shape::kBlockRows + row_warp * Shape::kRows + r;
      StoreTile(sum[i * Shape::kRows + r], args.out, args.out_stride,
                static_cast<int32_t>(rows) * kTileRows, args.rows,
                static_cast<int32_t>(tile) * kTileOut, args.out_features);
    }
  }
}

using SmallTile = TileShape<2, 4, 2, 2>;      // 64 features by 64 rows
using LargeTile = TileShape<2, 8, 4, 2>;      // 128 by 128, one leaf
using LargeLeafTile = TileShape<2, 4, 4, 2>;  // 128 by 64: the pending leaves need registers too

template <bool kBf16, int kRowTiles>
void LaunchStream(const ProductArgs& args, Launcher* launcher) {
  constexpr int kBytes = kStreamStages * (2 + kRowTiles) * kPieceBytes;
  Launch(&StreamProduct<kBf16, kRowTiles>, {args.out_tiles, args.leaves.leaves}, kWarp, kBytes,
         launcher, args);
  if (args.leaves.leaves == 1) return;
  const int64_t count = int64_t{1} * args.rows * args.out_features;
  Launch(&AddLeafSums, {(count + kRowThreads - 1) / kRowThreads}, kRowThreads, 0, launcher, args);
}

template <bool kBf16, class Shape, int kLevels>
void LaunchTiles(const ProductArgs& args, Launcher* launcher) {
  const Grid grid = {
      (args.out_tiles + Shape::kBlockOut - 1) / Shape::kBlockOut,
      (args.rows + Shape::kBlockRows * kTileRows - 1) / (Shape::kBlockRows * kTileRows)};
  Launch(&TileProduct<kBf16, Shape, kLevels>, grid, Shape::kThreads, Shape::kSharedBytes, launcher,
         args);
}

template <bool kBf16>
void LaunchOf(const ProductArgs& args, Launcher* launcher) {
  if (args.rows <= kTileRows) return LaunchStream<kBf16, 1>(args, launcher);
  if (args.rows <= kStreamRows) return LaunchStream<kBf16, 2>(args, launcher);
  if (args.rows < kLargeTileRows) {
    return LaunchTiles<kBf16, SmallTile, kLeafLevels>(args, launcher);
  }
  if (args.leaves.leaves == 1) return LaunchTiles<kBf16, LargeTile, 0>(args, launcher);
  return LaunchTiles<kBf16, LargeLeafTile, kLeafLevels>(args, launcher);
}

TUTTI_KERNEL void PackRows(TUTTI_PARAMETER PackRowsArgs args) {
  const int32_t chunks = Chunks(args.leaves);
  const int64_t width = int64_t{1} * chunks * kChunkK;
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  if (i >= args.rows * width) return;
  const int64_t row = i / width;
  const auto packed = static_cast<int32_t>(i % width);
  const int32_t k = SourceK(args.leaves, packed);
  const float value = k < 0 ? 0 : args.in[row * args.in_stride + k];
  args.out[ActivationIndex(row, packed, chunks)] = args.bf16 ? ToBf16(value) : ToF16(value);
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

TUTTI_KERNEL void PackWeight(TUTTI_PARAMETER PackWeightArgs args) {
  const int64_t width = args.leaves.begin[args.leaves.leaves];
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  if (i >= args.rows * width) return;
  const int64_t out = args.first_row + i / width;
  const auto k = static_cast<int32_t>(i % width);
  if (args.type == DType::kF32) {
    static_cast<float*>(args.out)[PlainWeightIndex(out, k, args.padded_out)] =
        static_cast<const float*>(args.in)[i];
  } else {
    const int64_t to = WeightIndex(out, PackedK(args.leaves, k), Chunks(args.leaves));
    static_cast<uint16_t*>(args.out)[to] = static_cast<const uint16_t*>(args.in)[i];
  }
}

TUTTI_KERNEL void Embed(TUTTI_PARAMETER EmbedArgs args) {
  const int64_t width = args.leaves.begin[args.leaves.leaves];
  const int64_t i = BlockX() * ThreadCount() + ThreadIndex();
  if (i >= args.rows * width) return;
  const int64_t row = i / width, id = args.ids[row];
  const auto k = static_cast<int32_t>(i % width);
  const int64_t from = args.type == DType::kF32
                           ? PlainWeightIndex(id, k, args.padded_out)
                           : WeightIndex(id, PackedK(args.leaves, k), Chunks(args.leaves));
  args.out[row * args.out_stride + k] = LoadValue(args.weight, args.type, from);
}

template <class Args>
void LaunchOverElements(void (*kernel)(Args), int64_t count, const Args& args, Launcher* launcher) {
  Launch(kernel, {(count + kRowThreads - 1) / kRowThreads}, kRowThreads, 0, launcher, args);
}

}  // namespace

void LaunchProduct(DType type, const ProductArgs& args, Launcher* launcher) {
  return type == DType::kBF16 ? LaunchOf<true>(args, launcher) : LaunchOf<false>(args, launcher);
}

void LaunchPackRows(const PackRowsArgs& args, Launcher* launcher) {
  LaunchOverElements(&PackRows, int64_t{1} * args.rows * Chunks(args.leaves) * kChunkK, args,
                     launcher);
}

void LaunchPlainProduct(const PlainProductArgs& args, Launcher* launcher) {
  const Grid grid = {(args.out_features + kRowThreads - 1) / kRowThreads,
                     (args.rows + kPlainRows - 1) / kPlainRows};
  Launch(&PlainProduct, grid, kRowThreads, 0, launcher, args);
}

void LaunchPackWeight(const PackWeightArgs& args, Launcher* launcher) {
  LaunchOverElements(&PackWeight, args.rows * args.leaves.begin[args.leaves.leaves], args,
                     launcher);
}

void LaunchEmbed(const EmbedArgs& args, Launcher* launcher) {
  LaunchOverElements(&Embed, int64_t{1} * args.rows * args.leaves.begin[args.leaves.leaves], args,
                     launcher);
}

}  // namespace tutti::kernels::cuda
