#include "kernels/cuda/hopper_sums.h"
#include "kernels/cuda/product_hopper.h"

namespace tutti::kernels::cuda {
namespace {

// A block: two warpgroups that multiply, each 64 features by all rows of the block, and one that
// fetches. A stage is kWideChunks chunks of a leaf, or a single one at its end.
template <int kBlockRows, bool kOfLeaves>
struct WideShape {
  static constexpr int kRows = kBlockRows;
  static constexpr bool kLeaves = kOfLeaves;
  static constexpr int kWarps = 8;  // that multiply
  static constexpr int kThreads = (kWarps + 4) * kWarp;
  static constexpr int kSums = kBlockRows / 2;  // of a thread
  static constexpr int kOutTiles = kWarps;      // of 16 features
  // Of one stage: of each tile's weights, its chunks; then of each chunk, all rows.
  static constexpr int kTileBytes = kWideChunks * 2 * kPieceBytes;
  static constexpr int kWeightBytes = kOutTiles * kTileBytes;
  static constexpr int kRowBytes = kBlockRows / kPieceRows * kPieceBytes;  // of one chunk
  static constexpr int kStageBytes = kWeightBytes + kWideChunks * kRowBytes;
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
TUTTI_HOST_DEVICE int32_t Tiles(const ProductArgs& args) {
  return RowBlocks<Shape>(args) * OutBlocks<Shape>(args);
}
template <class Shape>
TUTTI_DEVICE WideTile TileAt(const ProductArgs& args, int32_t index) {
  return WideTileAt(index, RowBlocks<Shape>(args), OutBlocks<Shape>(args), Shape::kGroup);
}

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
        InitBarrier(full + i, kFetchers);
        InitBarrier(empty + i, Shape::kWarps);
      }
      PublishBarriers();
    }
    SyncBlock();
  }
};

// Four warps bring every stage of every tile: a lane of one the weights of 16 features, others
// kWideRows rows of a chunk. Starting a copy takes a warp some eighty cycles, lane after lane, in
// which the tensor cores multiply a third of a chunk.
template <class Shape>
TUTTI_DEVICE void FetchTiles(const ProductArgs& args, const WideBlock<Shape>& block) {
  constexpr int kParts = Shape::kRows / kWideRows;
  const int32_t chunks = Chunks(args.leaves);
  const int copy = WarpIndex() - Shape::kWarps + kFetchers * Lane();
  const int part = (copy - Shape::kOutTiles) % kParts,
            of_chunk = (copy - Shape::kOutTiles) / kParts;
  const bool weights = copy < Shape::kOutTiles;
  const int chunk_bytes = weights ? 2 * kPieceBytes : kWideBytes;
  char* const to = block.shared + (weights ? copy * Shape::kTileBytes
                                           : Shape::kWeightBytes + of_chunk * Shape::kRowBytes +
                                                 part * kWideBytes);
  RingPlace place;
  TUTTI_KEEP_LOOP
  for (auto index = static_cast<int32_t>(BlockX()); index < Tiles<Shape>(args);
       index += static_cast<int32_t>(BlockCountX())) {
    const WideTile tile = TileAt<Shape>(args, index);
    const int32_t out_tile = tile.out_block * Shape::kOutTiles;
    const int32_t out_tiles =
        args.out_tiles - out_tile < Shape::kOutTiles ? args.out_tiles - out_tile : Shape::kOutTiles;
    const int32_t rows = args.rows - tile.row_block * Shape::kRows;
    const int32_t wide = rows < Shape::kRows ? (rows + kWideRows - 1) / kWideRows : kParts;
    const bool valid = weights ? copy < out_tiles : part < wide;
    const char* from =
        weights
            ? reinterpret_cast<const char*>(args.weight) +
                  (int64_t{1} * out_tile + copy) * chunks * chunk_bytes
            : reinterpret_cast<const char*>(args.in) +
                  ((int64_t{1} * tile.row_block * kParts + part) * chunks + of_chunk) * chunk_bytes;
    int32_t leaf_end = 0, leaf = 0;
    TUTTI_KEEP_LOOP
    for (int32_t chunk = 0; chunk < chunks;) {
      while (leaf_end == chunk) leaf_end = args.leaves.chunk[++leaf];
      const int32_t count = leaf_end - chunk < kWideChunks ? 1 : kWideChunks;
      AwaitPhase(block.empty + place.stage, place.parity ^ 1);
      ArriveFetching(block.full + place.stage, copy == 0,
                     count * (out_tiles * 2 * kPieceBytes + wide * kWideBytes));
      if (valid && (weights || of_chunk < count)) {
        CopyBulk(to + place.stage * Shape::kStageBytes, from,
                 weights ? count * chunk_bytes : chunk_bytes, block.full + place.stage);
      }
      from += count * chunk_bytes;
      chunk += count;
      place.Advance(kWideStages);
    }
  }
}

// Pending sums: of one leaf and half of those of a pair in registers, the others of a pair and
// those of two pairs in shared memory, where each is written and read twice, or once, in a tile.
template <class Shape>
struct PendingLeaves {
  float (&leaf)[Shape::kSums];
  float (&pair)[Shape::kSums / 2];
  float* const shared;  // [kPendingShared][threads]: two pairs, the half of one

  TUTTI_DEVICE float Load(int level, int i) const {
    if (level == 0) return leaf[i];
    return level == 1 && i < Shape::kSums / 2 ? pair[i] : shared[Place(level, i)];
  }
  TUTTI_DEVICE void Store(int level, int i, float sum) {
    if (level == 0) {
      leaf[i] = sum;
    } else if (level == 1 && i < Shape::kSums / 2) {
      pair[i] = sum;
    } else {
      shared[Place(level, i)] = sum;
    }
  }
  TUTTI_DEVICE static int Place(int level, int i) {
    return (level == 1 ? Shape::kSums / 2 + i : i) * Shape::kWarps * kWarp;
  }
};

// A warp's part of the block's tiles: 16 features of each.
template <bool kBf16, class Shape>
class TileMultiplier {
  static_assert(kWideChunks == 2);

 public:
  TUTTI_DEVICE TileMultiplier(const ProductArgs& args, const WideBlock<Shape>& block)
      : args_(args),
        block_(block),
        weights_(block.shared + WarpIndex() * Shape::kTileBytes + Lane() * 16),
        rows_(MatrixDescriptor(SharedAddress(block.shared + Shape::kWeightBytes), kCoreMatrixBytes,
                               kPieceBytes)) {}

  TUTTI_DEVICE void Run() {
    TUTTI_KEEP_LOOP
    for (auto index = static_cast<int32_t>(BlockX()); index < Tiles<Shape>(args_);
         index += static_cast<int32_t>(BlockCountX())) {
      float sum[Shape::kSums];
      const WideTile tile = TileAt<Shape>(args_, index);
      const int32_t row = tile.row_block * Shape::kRows;
      if constexpr (Shape::kLeaves) {
        SumLeaves(row, sum);
      } else {
        SumLeaf(0, row, sum);
      }
      StoreSums(args_, args_.out, args_.out_stride, row,
                (tile.out_block * Shape::kOutTiles + WarpIndex()) * kTileOut, sum);
    }
  }

 private:
  // The words of a chunk's two instructions.
  using Weights = uint32_t[2][4];

  // The tree of AddLeaf.
  TUTTI_DEVICE void SumLeaves(int32_t row, float (&sum)[Shape::kSums]) {
    float first[Shape::kSums], pair[Shape::kSums / 2];
    auto* const shared =
        reinterpret_cast<float*>(block_.shared + Shape::kPendingAt) + ThreadIndex();
    TUTTI_KEEP_LOOP
    for (int32_t leaf = 0; leaf < args_.leaves.leaves; ++leaf) {
      SumLeaf(leaf, row, sum);
      AddLeafTo<Shape::kSums, kLeafLevels>(leaf, sum, PendingLeaves<Shape>{first, pair, shared});
    }
  }

  TUTTI_DEVICE void SumLeaf(int32_t leaf, int32_t row, float (&sum)[Shape::kSums]) {
    TUTTI_UNROLL
    for (float& x : sum) x = 0;
    const int32_t chunks = args_.leaves.chunk[leaf + 1] - args_.leaves.chunk[leaf];
    // Two sets of weights take turns: while one is multiplied, the other comes.
    Weights even, odd;
    const int32_t stages = chunks / kWideChunks;
    TUTTI_KEEP_LOOP
    for (int32_t stage = 0; stage < stages; ++stage) {
      AwaitPhase(block_.full + next_.stage, next_.parity);
      Begin(sum, 0, even);
      WgmmaWait<1>();
      if (stage > 0) Release();
      Begin(sum, 1, odd);
      WgmmaWait<1>();
      next_.Advance(kWideStages);
    }
    if (stages > 0) {
      WgmmaWait<0>();
      Release();
    }
    if (chunks % kWideChunks != 0) {
      AwaitPhase(block_.full + next_.stage, next_.parity);
      Begin(sum, 0, even);
      WgmmaWait<0>();
      next_.Advance(kWideStages);
      Release();
    }
    AcceptSums(sum);
    ScaleBackAll<kBf16>(args_, leaf, row, sum);
  }

  // Starts a chunk of the stage that is next.
  TUTTI_DEVICE void Begin(float (&sum)[Shape::kSums], int chunk, Weights& a) {
    const int offset = next_.stage * Shape::kStageBytes;
    LoadWeights(weights_ + offset + chunk * 2 * kPieceBytes, a[0], a[1]);
    const uint64_t rows = MatrixBehind(rows_, offset);
    WgmmaFence();
    TUTTI_UNROLL
    for (int i = 0; i < 2; ++i) {
      Wgmma<kBf16>(sum, a[i],
                   MatrixBehind(rows, chunk * Shape::kRowBytes + i * 2 * kCoreMatrixBytes));
    }
    WgmmaCommit();
  }
  // The oldest stage has been read.
  TUTTI_DEVICE void Release() {
    SyncWarp();
    if (Lane() == 0) Arrive(block_.empty + oldest_);
    oldest_ = oldest_ + 1 == kWideStages ? 0 : oldest_ + 1;
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
  LetNextBegin();
  const WideBlock<Shape> block;
  block.Init();
  WaitForEarlier();
  if (WarpIndex() >= Shape::kWarps) {
    ReleaseRegisters<kFetchRegisters>();
    FetchTiles<Shape>(args, block);
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
int32_t Rounds(const ProductArgs& args, int32_t multiprocessors) {
  return (Tiles<Shape>(args) + multiprocessors - 1) / multiprocessors;
}
// A small tile is half a large one, and waits for shared memory for another quarter of its time.
bool SmallIsFaster(const ProductArgs& args, int32_t multiprocessors) {
  return 5 * Rounds<SmallWide>(args, multiprocessors) <
         8 * Rounds<LargeWide>(args, multiprocessors);
}

template <bool kBf16, class Shape>
void LaunchShape(const ProductArgs& args, int32_t multiprocessors, Launcher* launcher) {
  LaunchEarly(&WideProduct<kBf16, Shape>, {std::min(Tiles<Shape>(args), multiprocessors)},
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
