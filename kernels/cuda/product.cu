#include "kernels/cuda/leaf_sums.h"
#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/product_tile.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_math.h"

namespace tutti::kernels::cuda {
namespace {

// One lane's share of a 16 x 32 tile of weights and of an 8 x 32 tile of activations.
template <bool kBf16>
TUTTI_DEVICE void MultiplyChunk(float (&sum)[4], const Words& upper, const Words& lower,
                                const Words& rows) {
  Mma<kBf16>(sum, {upper.w[0], lower.w[0], upper.w[1], lower.w[1]}, {rows.w[0], rows.w[1]});
  Mma<kBf16>(sum, {upper.w[2], lower.w[2], upper.w[3], lower.w[3]}, {rows.w[2], rows.w[3]});
}

// Where the sums of a leaf go: to `out` when it is the only one.
struct LeafTarget {
  float* out;
  int64_t stride;
};
TUTTI_DEVICE LeafTarget TargetOf(const ProductArgs& args, int64_t leaf) {
  if (args.leaves.leaves == 1) return {args.out, args.out_stride};
  return {args.leaf_sums + leaf * args.rows * args.out_features, args.out_features};
}

// Few rows: a warp streams 16 features of one leaf. What a lane multiplies is exactly what it
// copied, so nothing waits for another lane.
//
// A turn of the outer loop goes once round the ring, so that every address is one of three pointers
// and a constant: a warp that has a multiprocessor's quarter to itself cannot spend more than a
// hundred cycles on a chunk.
template <bool kBf16, int kRowTiles, int kStages>
TUTTI_DEVICE void StreamLeaf(const ProductArgs& args, int leaf, char* warp_ring,
                             float (&sum)[kRowTiles][4]) {
  constexpr int kStageBytes = (2 + kRowTiles) * kPieceBytes;
  constexpr int kAhead = kStages - 1;
  const int lane = Lane();
  const int32_t chunks = Chunks(args.leaves);
  const int32_t first = args.leaves.chunk[leaf];
  const int32_t count = args.leaves.chunk[leaf + 1] - first;
  // Of the chunk with which the ring begins.
  const uint16_t* weight = args.weight + (BlockX() * chunks + first) * 2 * kPieceValues + lane * 8;
  const uint16_t* in = args.in + int64_t{1} * first * kPieceValues + lane * 8;
  const int64_t row_tile = int64_t{1} * chunks * kPieceValues;
  char* const ring = warp_ring + lane * 16;

  // Chunk `ahead` from where the pointers stand, if there are so many.
  const auto fetch_weights = [&](int ahead, int32_t left) {
    if (ahead >= left) return;
    char* const stage = ring + ahead % kStages * kStageBytes;
    TUTTI_UNROLL
    for (int half = 0; half < 2; ++half) {
      CopyAsync16(stage + half * kPieceBytes, weight + (ahead * 2 + half) * kPieceValues, true);
    }
  };
  const auto fetch_rows = [&](int ahead, int32_t left) {
    if (ahead < left) {
      char* const stage = ring + ahead % kStages * kStageBytes;
      TUTTI_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        const bool valid = r * kTileRows + lane / 4 < args.rows;
        CopyAsync16(stage + (2 + r) * kPieceBytes,
                    valid ? in + r * row_tile + ahead * kPieceValues : args.in, valid);
      }
    }
    CopyCommit();
  };

  // All that the ring holds of the weights is on its way before the rows are there.
  LetNextBegin();
  TUTTI_UNROLL
  for (int ahead = 0; ahead < kAhead; ++ahead) fetch_weights(ahead, count);
  WaitForEarlier();
  TUTTI_UNROLL
  for (int ahead = 0; ahead < kAhead; ++ahead) fetch_rows(ahead, count);
  TUTTI_KEEP_LOOP
  for (int32_t left = count; left > 0; left -= kStages) {
    TUTTI_UNROLL
    for (int chunk = 0; chunk < kStages; ++chunk) {
      if (chunk >= left) break;
      CopyWait<kAhead - 1>();
      const char* const stage = ring + chunk * kStageBytes;
      const Words upper = *reinterpret_cast<const Words*>(stage);
      const Words lower = *reinterpret_cast<const Words*>(stage + kPieceBytes);
      TUTTI_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        const Words rows = *reinterpret_cast<const Words*>(stage + (2 + r) * kPieceBytes);
        MultiplyChunk<kBf16>(sum[r], upper, lower, rows);
      }
      fetch_weights(chunk + kAhead, left);
      fetch_rows(chunk + kAhead, left);
    }
    weight += kStages * 2 * kPieceValues;
    in += kStages * kPieceValues;
  }
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) ScaleBack<kBf16>(args, leaf, r * kTileRows, sum[r]);
}

// One leaf: a warp is a block.
template <bool kBf16, int kRowTiles>
TUTTI_KERNEL_OF(kWarp)
void StreamProduct(TUTTI_PARAMETER ProductArgs args) {
  float sum[kRowTiles][4] = {};
  StreamLeaf<kBf16, kRowTiles, kStreamStages>(args, 0, SharedMemory(), sum);
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    StoreTile(sum[r], args.out, args.out_stride, r * kTileRows, args.rows,
              static_cast<int32_t>(BlockX()) * kTileOut, args.out_features);
  }
}

// Several leaves: a warp for each is a block, which adds them up.
template <bool kBf16, int kRowTiles>
TUTTI_KERNEL_OF(kLeavesMax* kWarp)
void StreamLeaves(TUTTI_PARAMETER ProductArgs args) {
  constexpr int kStages = kLeafStreamStages[kRowTiles - 1];
  constexpr int kRingBytes = kStages * (2 + kRowTiles) * kPieceBytes;
  const int leaf = WarpIndex(), lane = Lane();
  char* const ring = SharedMemory() + leaf * kRingBytes;
  float sum[kRowTiles][4] = {};
  StreamLeaf<kBf16, kRowTiles, kStages>(args, leaf, ring, sum);
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
template <class Shape, bool kWeights, bool kRows>
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
      from = args.weight + ((tile * chunks + chunk) * 2 + piece % 2) * kPieceValues + part * 8;
    } else {
      const int64_t tile = row_tile + piece - 2 * Shape::kBlockOut;
      valid = tile * kTileRows + part / 4 < args.rows;
      from = args.in + (tile * chunks + chunk) * kPieceValues + part * 8;
    }
    CopyAsync16(stage + i * 16, valid ? from : args.weight, valid);
  }
  static_assert(Shape::kPieces * kCopies % Shape::kThreads == 0);
}

// Many rows: the warps of a block share weights and rows through shared memory. kLevels: 0 for
// blocks of one leaf; else blocks go through all leaves and add them up in registers.
template <bool kBf16, class Shape, int kLevels>
TUTTI_KERNEL void TileProduct(TUTTI_PARAMETER ProductArgs args) {
  constexpr int kSums = Shape::kOut * Shape::kRows * 4;
  constexpr int kStageBytes = Shape::kPieces * kPieceBytes;
  constexpr int kAhead = Shape::kStages - 1;
  const int lane = Lane();
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
  const auto first_row = [&](int r) {
    return static_cast<int32_t>((row_tile + row_warp * Shape::kRows + r) * kTileRows);
  };
  const auto scale_back = [&] {
    TUTTI_UNROLL
    for (int r = 0; r < Shape::kRows; ++r) {
      TUTTI_UNROLL
      for (int i = 0; i < Shape::kOut; ++i) {
        ScaleBack<kBf16>(args, leaf, first_row(r), sum[i * Shape::kRows + r]);
      }
    }
  };
  // Ends every leaf whose last chunk was the one before `next`, the empty ones among them.
  const auto end_leaves = [&](int32_t next) {
    if constexpr (kLevels > 0) {
      while (leaf < leaves && args.leaves.chunk[leaf + 1] == next) {
        scale_back();
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
    FetchTile<Shape, true, false>(args, out_tile, row_tile, chunk, stage_of(chunk));
  }
  WaitForEarlier();
  for (int32_t chunk = first; chunk < first + kAhead; ++chunk) {
    if (chunk < last) {
      FetchTile<Shape, false, true>(args, out_tile, row_tile, chunk, stage_of(chunk));
    }
    CopyCommit();
  }
  end_leaves(first);
  for (int32_t chunk = first; chunk < last; ++chunk) {
    CopyWait<kAhead - 1>();
    SyncBlock();  // everybody's copies are here, and nobody reads the stage before this one
    if (chunk + kAhead < last) {
      FetchTile<Shape, true, true>(args, out_tile, row_tile, chunk + kAhead,
                                   stage_of(chunk + kAhead));
    }
    CopyCommit();
    const char* const stage = ring + (chunk - first) % Shape::kStages * kStageBytes + lane * 16;
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
  if constexpr (kLevels == 0) scale_back();
  const LeafTarget target =
      kLevels == 0 ? TargetOf(args, own_leaf) : LeafTarget{args.out, args.out_stride};
  TUTTI_UNROLL
  for (int i = 0; i < Shape::kOut; ++i) {
    TUTTI_UNROLL
    for (int r = 0; r < Shape::kRows; ++r) {
      const int64_t tile = out_tile + out_warp * Shape::kOut + i;
      StoreTile(sum[i * Shape::kRows + r], target.out, target.stride, first_row(r), args.rows,
                static_cast<int32_t>(tile) * kTileOut, args.out_features);
    }
  }
}

// 64 features by 64 rows, of one leaf. Blocks are few, so each has much under way.
using SmallTile = TileShape<2, 4, 2, 2, kSmallTileStages>;
// 128 by 128, one leaf: a warp's 64 by 64 ask shared memory for half of what 32 by 64 would, which
// tensor cores would have to wait for.
using LargeTile = TileShape<4, 8, 2, 2, kTileStages>;
// 128 by 64: the pending leaves need registers too.
using LargeLeafTile = TileShape<2, 4, 4, 2, kTileStages>;

template <bool kBf16, int kRowTiles>
void LaunchStream(const ProductArgs& args, Launcher* launcher) {
  constexpr int kStageBytes = (2 + kRowTiles) * kPieceBytes;
  const int leaves = args.leaves.leaves;
  if (leaves == 1) {
    return LaunchEarly(&StreamProduct<kBf16, kRowTiles>, {args.out_tiles}, kWarp,
                       kStreamStages * kStageBytes, launcher, args);
  }
  LaunchEarly(&StreamLeaves<kBf16, kRowTiles>, {args.out_tiles}, leaves * kWarp,
              leaves * kLeafStreamStages[kRowTiles - 1] * kStageBytes, launcher, args);
}

template <bool kBf16, class Shape, int kLevels>
void LaunchTiles(const ProductArgs& args, Launcher* launcher) {
  const Grid grid = {
      int64_t{1} * RowBlocks<Shape>(args.rows) * (kLevels == 0 ? args.leaves.leaves : 1),
      (args.out_tiles + Shape::kBlockOut - 1) / Shape::kBlockOut};
  LaunchEarly(&TileProduct<kBf16, Shape, kLevels>, grid, Shape::kThreads, Shape::kSharedBytes,
              launcher, args);
}

template <bool kBf16>
void LaunchOf(const ProductArgs& args, Launcher* launcher) {
  const bool whole = args.leaves.leaves == 1;
  if (args.rows > kLeafSumRows) {
    if (whole) return LaunchTiles<kBf16, LargeTile, 0>(args, launcher);
    return LaunchTiles<kBf16, LargeLeafTile, kLeafLevels>(args, launcher);
  }
  if (args.rows <= kTileRows) return LaunchStream<kBf16, 1>(args, launcher);
  if (args.rows <= kStreamRows) return LaunchStream<kBf16, 2>(args, launcher);
  LaunchTiles<kBf16, SmallTile, 0>(args, launcher);
  if (whole || args.out == nullptr) return;
  LaunchEarly(&AddLeafSums, {args.rows, (args.out_features + kRowThreads - 1) / kRowThreads},
              kRowThreads, 0, launcher, args);
}

TUTTI_KERNEL void PackBf16Rows(TUTTI_PARAMETER PackRowsArgs args) {
  const int32_t chunks = Chunks(args.leaves);
  const int64_t row = BlockX();
  const auto packed = static_cast<int32_t>(BlockY() * ThreadCount() + ThreadIndex());
  LetNextBegin();
  WaitForEarlier();
  if (packed >= chunks * kChunkK) return;
  const int32_t k = SourceK(args.leaves, packed);
  const float value = k < 0 ? 0 : args.in[row * args.in_stride + k];
  args.out[ActivationIndex(row, packed, chunks)] = ToBf16(value);
}

// Rows for wgmma: a warp has a piece, so that each of its four stores is 128 bytes in a row.
TUTTI_KERNEL void PackWideBf16Rows(TUTTI_PARAMETER PackRowsArgs args) {
  const int32_t chunks = Chunks(args.leaves);
  const auto chunk = static_cast<int32_t>(BlockY() * (ThreadCount() / kWarp) + WarpIndex());
  if (chunk >= chunks) return;
  const int lane = Lane();
  const int64_t row = BlockX() * kPieceRows + lane / 4;
  int32_t leaf = 0;
  while (chunk >= args.leaves.chunk[leaf + 1]) ++leaf;
  const int32_t k =
      args.leaves.begin[leaf] + (chunk - args.leaves.chunk[leaf]) * kChunkK + lane % 4 * 8;
  const int32_t left = row < args.rows ? args.leaves.begin[leaf + 1] - k : 0;
  const float* const in = args.in + row * args.in_stride + k;
  auto* const out = reinterpret_cast<uint32_t*>(
      args.out + WideActivationIndex(BlockX() * kPieceRows, chunk * kChunkK, chunks));
  TUTTI_UNROLL
  for (int word = 0; word < 4; ++word) {
    const uint32_t low = ToBf16(2 * word < left ? in[2 * word] : 0);
    const uint32_t high = ToBf16(2 * word + 1 < left ? in[2 * word + 1] : 0);
    out[word * kWarp + lane] = low | high << 16;
  }
}

// A block per row and leaf: it is read once for its largest number, and once, from the cache, to
// be rounded.
TUTTI_KERNEL void PackF16Rows(TUTTI_PARAMETER PackRowsArgs args) {
  const int64_t row = BlockX();
  const auto leaf = static_cast<int32_t>(BlockY());
  const int32_t chunks = Chunks(args.leaves);
  const float* const in = args.in + row * args.in_stride + args.leaves.begin[leaf];
  const int32_t length = args.leaves.begin[leaf + 1] - args.leaves.begin[leaf];
  LetNextBegin();
  WaitForEarlier();
  float largest = 0;
  for (int32_t k = ThreadIndex(); k < length; k += kRowThreads) {
    largest = LargestFinite(largest, in[k]);
  }
  largest = ReduceBlock(largest, Larger());
  const float scale = F16Scale(largest), inverse = 1 / scale;
  if (ThreadIndex() == 0) args.scale[ScaleIndex(row, leaf, args.leaves)] = scale;
  const int32_t first = args.leaves.chunk[leaf] * kChunkK;
  const int32_t padded = args.leaves.chunk[leaf + 1] * kChunkK - first;
  for (int32_t k = ThreadIndex(); k < padded; k += kRowThreads) {
    const float value = k < length ? in[k] * inverse : 0;
    const int64_t to = args.wide ? WideActivationIndex(row, first + k, chunks)
                                 : ActivationIndex(row, first + k, chunks);
    args.out[to] = ToF16(value);
  }
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
  if (!args.bf16) {
    return LaunchEarly(&PackF16Rows, {args.rows, args.leaves.leaves}, kRowThreads,
                       kReduceSharedBytes, launcher, args);
  }
  if (args.wide) {
    const Grid grid = GridOver((args.rows + kPieceRows - 1) / kPieceRows, Chunks(args.leaves),
                               kRowThreads / kWarp);
    return Launch(&PackWideBf16Rows, grid, kRowThreads, 0, launcher, args);
  }
  LaunchEarly(&PackBf16Rows, GridOver(args.rows, Chunks(args.leaves) * kChunkK, kRowThreads),
              kRowThreads, 0, launcher, args);
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
