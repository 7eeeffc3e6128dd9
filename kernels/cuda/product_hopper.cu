#include "kernels/cuda/gpu_hopper.h"
#include "kernels/cuda/product_hopper.h"
#include "kernels/cuda/product_tile.h"

namespace tutti::kernels::cuda {
namespace {

// A block: two warpgroups that multiply, each 64 features by all rows of the block, and one of
// which a warp fetches.
template <int kBlockRows, bool kOfLeaves>
struct WideShape {
  static constexpr int kRows = kBlockRows;
  static constexpr bool kLeaves = kOfLeaves;
  static constexpr int kWarps = 8;  // that multiply
  static constexpr int kThreads = (kWarps + 4) * kWarp;
  static constexpr int kSums = kBlockRows / 2;                      // of a thread
  static constexpr int kOutTiles = kWarps;                          // of 16 features
  static constexpr int kWeightBytes = kOutTiles * 2 * kPieceBytes;  // of one stage
  static constexpr int kStageBytes = kWeightBytes + kBlockRows / kPieceRows * kPieceBytes;
  // Behind the ring: pending sums of the highest level of leaves, then barriers.
  static constexpr int kPendingAt = kWideStages * kStageBytes;
  static constexpr int kPendingBytes = kOfLeaves ? kSums * 3 / 2 * kWarps * kWarp * 4 : 0;
  static constexpr int kBarriersAt = kPendingAt + kPendingBytes;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kWideStages * 8;
  static constexpr int kGroup = kWideGroupRows / kBlockRows;

  static_assert(kSharedBytes <= 227 << 10);
};

constexpr int kWideBytes = kWideRows * kChunkK * 2;  // of one chunk of kWideRows
// 65,536 registers: 240 for each of 256 threads that multiply (128 sums or, for leaves, 64 and two
// pending sums of each; eight words of weights twice), 24 for each of the other 128.
constexpr int kMultiplyRegisters = 240, kFetchRegisters = 24;

template <class Shape>
TUTTI_HOST_DEVICE int32_t RowBlocks(const ProductArgs& args) {
  return (args.rows + Shape::kRows - 1) / Shape::kRows;
}
template <class Shape>
TUTTI_HOST_DEVICE int32_t OutBlocks(const ProductArgs& args) {
  return (args.out_tiles + Shape::kOutTiles - 1) / Shape::kOutTiles;
}
template <class Shape>
TUTTI_HOST_DEVICE int64_t Tiles(const ProductArgs& args) {
  return int64_t{1} * RowBlocks<Shape>(args) * OutBlocks<Shape>(args);
}
template <class Shape>
TUTTI_DEVICE WideTile TileAt(const ProductArgs& args, int64_t index) {
  return WideTileAt(index, RowBlocks<Shape>(args), OutBlocks<Shape>(args), Shape::kGroup);
}

// A place in the ring that goes round with the chunks of all tiles of a block.
struct RingPlace {
  int32_t stage = 0;
  uint32_t parity = 0;  // of the stage's phase
  TUTTI_DEVICE void Advance() {
    if (++stage == kWideStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The barriers of a block's memory. `full` of a stage: its chunk is there; `empty`: all warps have
// read it.
template <class Shape>
struct WideBlock {
  char* const shared = SharedMemory();
  ArrivalBarrier* const full = reinterpret_cast<ArrivalBarrier*>(shared + Shape::kBarriersAt);
  ArrivalBarrier* const empty = full + kWideStages;

  TUTTI_DEVICE void Init() const {
    if (ThreadIndex() == 0) {
      for (int i = 0; i < kWideStages; ++i) {
        InitBarrier(full + i, 1);
        InitBarrier(empty + i, Shape::kWarps);
      }
      PublishBarriers();
    }
    SyncBlock();
  }
};

// A warp brings every chunk of every tile: each lane one piece of 16 features, or kWideRows rows.
template <class Shape>
TUTTI_DEVICE void FetchTiles(const ProductArgs& args, const WideBlock<Shape>& block) {
  static_assert(Shape::kOutTiles + Shape::kRows / kWideRows <= kWarp);
  const int32_t chunks = Chunks(args.leaves);
  const int lane = Lane(), part = lane - Shape::kOutTiles;
  const bool weights = part < 0;
  const int bytes = weights ? 2 * kPieceBytes : kWideBytes;
  char* const to =
      block.shared + (weights ? lane * 2 * kPieceBytes : Shape::kWeightBytes + part * kWideBytes);
  RingPlace place;
  TUTTI_KEEP_LOOP
  for (int64_t index = BlockX(); index < Tiles<Shape>(args); index += BlockCountX()) {
    const WideTile tile = TileAt<Shape>(args, index);
    const int32_t out_tile = tile.out_block * Shape::kOutTiles;
    const int32_t out_tiles =
        args.out_tiles - out_tile < Shape::kOutTiles ? args.out_tiles - out_tile : Shape::kOutTiles;
    const int32_t rows = args.rows - tile.row_block * Shape::kRows;
    const int32_t wide =
        rows < Shape::kRows ? (rows + kWideRows - 1) / kWideRows : Shape::kRows / kWideRows;
    const bool valid = weights ? lane < out_tiles : part < wide;
    const int64_t row_part = int64_t{1} * tile.row_block * (Shape::kRows / kWideRows) + part;
    const char* from =
        weights ? reinterpret_cast<const char*>(args.weight) +
                      (int64_t{1} * out_tile + lane) * chunks * (2 * kPieceBytes)
                : reinterpret_cast<const char*>(args.in) + row_part * chunks * kWideBytes;
    const int expected = out_tiles * 2 * kPieceBytes + wide * kWideBytes;
    TUTTI_KEEP_LOOP
    for (int32_t chunk = 0; chunk < chunks; ++chunk) {
      AwaitPhase(block.empty + place.stage, place.parity ^ 1);
      if (lane == 0) ArriveExpecting(block.full + place.stage, expected);
      SyncWarp();
      if (valid) {
        CopyBulk(to + place.stage * Shape::kStageBytes, from, bytes, block.full + place.stage);
        from += bytes;
      }
      place.Advance();
    }
  }
}

// Pending sums of pairs of leaves: half of those of one pair are in registers, the others and those
// of two pairs in shared memory, where each is written and read twice, or once, in a tile.
template <class Shape>
struct PendingPairs {
  float (&pair)[Shape::kSums / 2];
  float* const shared;  // [kPendingShared][threads]: two pairs, the half of one

  TUTTI_DEVICE float Load(int level, int i) const {
    return level == 0 && i < Shape::kSums / 2 ? pair[i] : shared[Place(level, i)];
  }
  TUTTI_DEVICE void Store(int level, int i, float sum) {
    if (level == 0 && i < Shape::kSums / 2) {
      pair[i] = sum;
    } else {
      shared[Place(level, i)] = sum;
    }
  }
  TUTTI_DEVICE static int Place(int level, int i) {
    return (level == 0 ? Shape::kSums / 2 + i : i) * Shape::kWarps * kWarp;
  }
};

// A warp's part of the block's tiles: 16 features of each.
template <bool kBf16, class Shape>
class TileMultiplier {
 public:
  TUTTI_DEVICE TileMultiplier(const ProductArgs& args, const WideBlock<Shape>& block)
      : args_(args),
        block_(block),
        weights_(block.shared + WarpIndex() * 2 * kPieceBytes + Lane() * 16),
        rows_(MatrixDescriptor(SharedAddress(block.shared + Shape::kWeightBytes), kCoreMatrixBytes,
                               kPieceBytes)) {}

  TUTTI_DEVICE void Run() {
    TUTTI_KEEP_LOOP
    for (int64_t index = BlockX(); index < Tiles<Shape>(args_); index += BlockCountX()) {
      float sum[Shape::kSums];
      const WideTile tile = TileAt<Shape>(args_, index);
      const int32_t row = tile.row_block * Shape::kRows;
      if constexpr (Shape::kLeaves) {
        SumLeaves(row, sum);
      } else {
        SumLeaf(0, row, sum);
      }
      Store(tile, row, sum);
    }
  }

 private:
  // The words of a chunk's two instructions.
  using Weights = uint32_t[2][4];

  // The tree of AddLeaf, of which the lowest level is written out: the first leaf of a pair stays
  // in the registers that it was summed in.
  TUTTI_DEVICE void SumLeaves(int32_t row, float (&sum)[Shape::kSums]) {
    float pair[Shape::kSums / 2];
    auto* const shared =
        reinterpret_cast<float*>(block_.shared + Shape::kPendingAt) + ThreadIndex();
    TUTTI_KEEP_LOOP
    for (int32_t leaf = 0; leaf < args_.leaves.leaves; leaf += 2) {
      float first[Shape::kSums];
      SumLeaf(leaf, row, first);
      if (leaf + 1 == args_.leaves.leaves) {
        TUTTI_UNROLL
        for (int i = 0; i < Shape::kSums; ++i) sum[i] = first[i];
        break;
      }
      SumLeaf(leaf + 1, row, sum);
      TUTTI_UNROLL
      for (int i = 0; i < Shape::kSums; ++i) sum[i] = first[i] + sum[i];
      AddLeafTo<Shape::kSums, kLeafLevels - 1>(leaf / 2, sum, PendingPairs<Shape>{pair, shared});
    }
  }

  TUTTI_DEVICE void SumLeaf(int32_t leaf, int32_t row, float (&sum)[Shape::kSums]) {
    TUTTI_UNROLL
    for (float& x : sum) x = 0;
    int32_t left = args_.leaves.chunk[leaf + 1] - args_.leaves.chunk[leaf];
    if (left > 0) {
      // Two sets of weights take turns: while one is multiplied, the other comes.
      Weights even, odd;
      Begin(sum, even);
      --left;
      TUTTI_KEEP_LOOP
      for (; left >= 2; left -= 2) {
        Begin(sum, odd);
        EndOneBefore();
        Begin(sum, even);
        EndOneBefore();
      }
      if (left > 0) {
        Begin(sum, odd);
        EndOneBefore();
      }
      WgmmaWait<0>();
      AcceptSums(sum);
      Release();
    }
    if constexpr (!kBf16) ScaleBackAll(leaf, row, sum);
  }

  // As ScaleBack. Each lane reads the scales of a few rows and hands them to the lanes that need
  // them.
  TUTTI_DEVICE void ScaleBackAll(int32_t leaf, int32_t row, float (&sum)[Shape::kSums]) {
    constexpr int kTiles = kWarp / kTileRows;  // whose rows the lanes of a warp read at once
    float scale_of_row = 1;
    TUTTI_UNROLL
    for (int tile = 0; tile < Shape::kRows / kTileRows; ++tile) {
      if (tile % kTiles == 0) {
        const int32_t r = row + tile * kTileRows + Lane();
        scale_of_row = r < args_.rows ? args_.scale[ScaleIndex(r, leaf, args_.leaves)] : 1;
      }
      TUTTI_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float scale =
            Broadcast(scale_of_row, tile % kTiles * kTileRows + 2 * (Lane() % 4) + i);
        sum[4 * tile + i] *= scale;
        sum[4 * tile + 2 + i] *= scale;
      }
    }
  }

  // Starts the next chunk.
  TUTTI_DEVICE void Begin(float (&sum)[Shape::kSums], Weights& a) {
    AwaitPhase(block_.full + next_.stage, next_.parity);
    const int offset = next_.stage * Shape::kStageBytes;
    const Words upper = *reinterpret_cast<const Words*>(weights_ + offset);
    const Words lower = *reinterpret_cast<const Words*>(weights_ + offset + kPieceBytes);
    TUTTI_UNROLL
    for (int i = 0; i < 2; ++i) {
      a[i][0] = upper.w[2 * i];
      a[i][1] = lower.w[2 * i];
      a[i][2] = upper.w[2 * i + 1];
      a[i][3] = lower.w[2 * i + 1];
    }
    // Addresses are the lowest bits, in units of 16 bytes.
    const uint64_t rows = rows_ + static_cast<uint64_t>(offset / 16);
    WgmmaFence();
    Wgmma<kBf16>(sum, a[0], rows);
    Wgmma<kBf16>(sum, a[1], rows + 2 * kCoreMatrixBytes / 16);
    WgmmaCommit();
    next_.Advance();
  }
  TUTTI_DEVICE void EndOneBefore() {
    WgmmaWait<1>();
    Release();
  }
  // The oldest chunk that was begun has been read.
  TUTTI_DEVICE void Release() {
    SyncWarp();
    if (Lane() == 0) Arrive(block_.empty + oldest_);
    oldest_ = oldest_ + 1 == kWideStages ? 0 : oldest_ + 1;
  }

  TUTTI_DEVICE void Store(const WideTile& block_tile, int32_t row,
                          const float (&sum)[Shape::kSums]) const {
    const int32_t feature = (block_tile.out_block * Shape::kOutTiles + WarpIndex()) * kTileOut;
    TUTTI_UNROLL
    for (int tile = 0; tile < Shape::kRows / kTileRows; ++tile) {
      float part[4];
      CopyPart(sum, tile, part);
      StoreTile(part, args_.out, args_.out_stride, row + tile * kTileRows, args_.rows, feature,
                args_.out_features);
    }
  }
  // The sums of 8 rows. Not by a reference into `sum`, which would then have to have an address.
  TUTTI_DEVICE static void CopyPart(const float (&sum)[Shape::kSums], int tile, float (&part)[4]) {
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) part[i] = sum[4 * tile + i];
  }

  const ProductArgs& args_;
  const WideBlock<Shape>& block_;
  const char* const weights_;  // this lane's, of stage 0
  const uint64_t rows_;        // of stage 0
  RingPlace next_;
  int32_t oldest_ = 0;
};

template <bool kBf16, class Shape>
TUTTI_LARGE_KERNEL(Shape::kThreads)
WideProduct(TUTTI_PARAMETER ProductArgs args) {
  const WideBlock<Shape> block;
  block.Init();
  if (WarpIndex() >= Shape::kWarps) {
    ReleaseRegisters<kFetchRegisters>();
    if (WarpIndex() == Shape::kWarps) FetchTiles<Shape>(args, block);
  } else {
    ClaimRegisters<kMultiplyRegisters>();
    TileMultiplier<kBf16, Shape>(args, block).Run();
  }
}

// The large one asks least of shared memory and of the L2 cache; where it would leave
// multiprocessors without work, small ones are more.
using LargeWide = WideShape<256, false>;
using SmallWide = WideShape<128, false>;
using LeafWide = WideShape<128, true>;

// Tiles that the busiest multiprocessor multiplies.
template <class Shape>
int64_t Rounds(const ProductArgs& args, int32_t multiprocessors) {
  return (Tiles<Shape>(args) + multiprocessors - 1) / multiprocessors;
}
// A small tile is half a large one, and waits for shared memory for another quarter of its time.
bool SmallIsFaster(const ProductArgs& args, int32_t multiprocessors) {
  return 5 * Rounds<SmallWide>(args, multiprocessors) <
         8 * Rounds<LargeWide>(args, multiprocessors);
}

template <bool kBf16, class Shape>
void LaunchShape(const ProductArgs& args, int32_t multiprocessors, Launcher* launcher) {
  Launch(&WideProduct<kBf16, Shape>, {std::min<int64_t>(Tiles<Shape>(args), multiprocessors)},
         Shape::kThreads, Shape::kSharedBytes, launcher, args);
}

template <bool kBf16>
void LaunchWide(const ProductArgs& args, int32_t multiprocessors, Launcher* launcher) {
  if (args.leaves.leaves > 1) {
    return LaunchShape<kBf16, LeafWide>(args, multiprocessors, launcher);
  }
  if (SmallIsFaster(args, multiprocessors)) {
    return LaunchShape<kBf16, SmallWide>(args, multiprocessors, launcher);
  }
  LaunchShape<kBf16, LargeWide>(args, multiprocessors, launcher);
}

}  // namespace

void LaunchWideProduct(DType type, const ProductArgs& args, int32_t multiprocessors,
                       Launcher* launcher) {
  return type == DType::kBF16 ? LaunchWide<true>(args, multiprocessors, launcher)
                              : LaunchWide<false>(args, multiprocessors, launcher);
}

}  // namespace tutti::kernels::cuda
