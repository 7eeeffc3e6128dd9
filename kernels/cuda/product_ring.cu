#include "kernels/cuda/hopper_sums.h"
#include "kernels/cuda/product_ring.h"

namespace tutti::kernels::cuda {
namespace {

// Of one block, at most: three warpgroups.
constexpr int kRingTilesMax = 12;

struct RingArgs {
  ProductArgs product;
  int32_t items = 0, tiles = 0;  // RingShares
  int32_t stages = 0;
  int32_t burst = 0;  // stages that are asked for at once while kernels before this one run
};

// Of the warps that fetch, those that bring weights.
constexpr int kWeightFetchers = kFetchers - 1;

// A block: one to three warpgroups that multiply, then one that fetches. A stage of the ring is
// kChunks chunks, of each tile's weights, then of the rows. Threads that multiply have registers
// enough for their Wgmma to follow each other, those that fetch leave them theirs.
//   kBlocks: that share a multiprocessor, of shared memory too
template <int kMultipliedRows, int kStageChunks, int kMostTiles, int kBlocks = 1>
struct RingShape {
  static constexpr int kRows = kMultipliedRows;  // as wide as the instruction, or fewer
  static constexpr int kSums = kRows / 2;        // of a thread
  static constexpr int kChunks = kStageChunks;
  static constexpr int kTilesMax = kMostTiles;
  static constexpr int kThreadsMax = kTilesMax * kWarp + kWarpgroup;
  // A function: nvcc warns of constants that only the host reads.
  TUTTI_HOST_DEVICE static constexpr int Sharing() { return kBlocks; }
  static constexpr int kSharedBytes = kBlocks == 1 ? kRingBytes : kSharedRingBytes;
  // Registers leave room for a block of the next kernel where this one is small.
  static constexpr int kBlocksMin = kThreadsMax <= 256 ? 2 : kBlocks;
  static constexpr int kRegisters = 65536 / (kThreadsMax * kBlocksMin) / 8 * 8;  // at the start
  static constexpr int kFetchRegisters = 40;
  static constexpr int kMultiplyRegisters =
      (kRegisters + (kRegisters - kFetchRegisters) * kWarpgroup / (kTilesMax * kWarp)) / 8 * 8;
  // A claim that nobody has released enough for waits for ever.
  static_assert(kMultiplyRegisters * kTilesMax * kWarp + kFetchRegisters * kWarpgroup <=
                kRegisters * kThreadsMax);
  static constexpr int kChunkBytes = 2 * kPieceBytes;  // of a tile's weights
  static constexpr int kTileBytes = kChunks * kChunkBytes;
  static constexpr int kRowBytes = kRows / kPieceRows * kPieceBytes;  // of one chunk
  TUTTI_HOST_DEVICE static constexpr int StageBytes(int32_t tiles) {
    return tiles * kTileBytes + kChunks * kRowBytes;
  }
};

// An item: from which tile on, and of which leaf.
struct RingItem {
  int32_t first_tile, leaf;
};
TUTTI_DEVICE RingItem ItemAt(const RingArgs& args, int32_t index) {
  const int32_t groups = (args.product.out_tiles + args.tiles - 1) / args.tiles;
  const int32_t leaf = index / groups;
  return {(index - leaf * groups) * args.tiles, leaf};
}

// Stages one after the other, of all items of a block: Shape::kChunks chunks of a leaf, or a single
// one at its end.
template <class Shape>
class RingWalk {
 public:
  TUTTI_DEVICE explicit RingWalk(const RingArgs& args)
      : args_(args), index_(static_cast<int32_t>(BlockX() - BlockCountX())) {
    FindChunk();
  }
  TUTTI_DEVICE bool valid() const { return index_ < args_.items; }
  TUTTI_DEVICE int32_t first_tile() const { return item_.first_tile; }
  TUTTI_DEVICE int32_t chunk() const { return chunk_; }  // first of the stage
  TUTTI_DEVICE int count() const { return end_ - chunk_ >= Shape::kChunks ? Shape::kChunks : 1; }
  TUTTI_DEVICE void Next() {
    chunk_ += count();
    if (chunk_ == end_) FindChunk();
  }

 private:
  // The first of the next item that has any.
  TUTTI_DEVICE void FindChunk() {
    do {
      index_ += static_cast<int32_t>(BlockCountX());
      if (!valid()) return;
      item_ = ItemAt(args_, index_);
      chunk_ = args_.product.leaves.chunk[item_.leaf];
      end_ = args_.product.leaves.chunk[item_.leaf + 1];
    } while (chunk_ == end_);
  }

  const RingArgs& args_;
  int32_t index_;
  RingItem item_ = {};
  int32_t chunk_ = 0, end_ = 0;
};

// The barriers of a block's memory. `full` of a stage: its weights are there; `rows`: its rows are;
// `empty`: all warps have read both.
template <class Shape>
struct RingBlock {
  char* const shared = SharedMemory();
  const int stage_bytes;
  ArrivalBarrier* const full;
  ArrivalBarrier* const rows;
  ArrivalBarrier* const empty;
  const int warps;  // that multiply

  TUTTI_DEVICE explicit RingBlock(const RingArgs& args)
      : stage_bytes(Shape::StageBytes(args.tiles)),
        full(reinterpret_cast<ArrivalBarrier*>(shared + args.stages * stage_bytes)),
        rows(full + args.stages),
        empty(rows + args.stages),
        warps((ThreadCount() - kWarpgroup) / kWarp) {
    if (ThreadIndex() == 0) {
      for (int i = 0; i < args.stages; ++i) {
        InitBarrier(full + i, kWeightFetchers);
        InitBarrier(rows + i, 1);
        InitBarrier(empty + i, warps);
      }
      PublishBarriers();
    }
    SyncBlock();
  }
};

// One warp brings the rows of every stage, three the weights, a lane of one those of a tile.
// Starting a copy takes a warp some eighty cycles, lane after lane.
template <class Shape>
class RingFetcher {
 public:
  TUTTI_DEVICE RingFetcher(const RingArgs& args, const RingBlock<Shape>& block)
      : args_(args), block_(block), warp_(WarpIndex() - block.warps) {}

  TUTTI_DEVICE void Run() const {
    if (warp_ == kWeightFetchers) return FetchAllRows();
    RingWalk<Shape> walk(args_);
    TUTTI_KEEP_LOOP
    for (int32_t stage = 0; stage < args_.stages && walk.valid(); ++stage, walk.Next()) {
      if (stage >= args_.burst) AwaitPhase(block_.full + stage - args_.burst, 0);
      FetchWeights(walk, stage);
    }
    WaitForEarlier();
    RingPlace place;
    TUTTI_KEEP_LOOP
    for (; walk.valid(); walk.Next()) {
      AwaitPhase(block_.empty + place.stage, place.parity);
      FetchWeights(walk, place.stage);
      place.Advance(args_.stages);
    }
  }

 private:
  TUTTI_DEVICE void FetchAllRows() const {
    WaitForEarlier();
    RingPlace place;
    TUTTI_KEEP_LOOP
    for (RingWalk<Shape> walk(args_); walk.valid(); walk.Next()) {
      AwaitPhase(block_.empty + place.stage, place.parity ^ 1);
      FetchRows(walk, place.stage);
      place.Advance(args_.stages);
    }
  }
  TUTTI_DEVICE void FetchWeights(const RingWalk<Shape>& walk, int32_t stage) const {
    const ProductArgs& product = args_.product;
    const int tile = warp_ + kWeightFetchers * Lane();
    const int32_t left = product.out_tiles - walk.first_tile();
    const int32_t tiles = left < args_.tiles ? left : args_.tiles;
    const int bytes = walk.count() * Shape::kChunkBytes;
    ArriveFetching(block_.full + stage, tile == 0, tiles * bytes);
    if (tile >= tiles) return;
    const int64_t chunk =
        int64_t{1} * (walk.first_tile() + tile) * Chunks(product.leaves) + walk.chunk();
    CopyBulk(block_.shared + stage * block_.stage_bytes + tile * Shape::kTileBytes,
             product.weight + chunk * 2 * kPieceValues, bytes, block_.full + stage);
  }
  // Chunks that have as many pieces there as here come together.
  TUTTI_DEVICE void FetchRows(const RingWalk<Shape>& walk, int32_t stage) const {
    const int of_chunk = (args_.product.rows + kPieceRows - 1) / kPieceRows * kPieceBytes;
    const bool together = of_chunk == Shape::kRowBytes;
    const int all = walk.count() * of_chunk;
    ArriveFetching(block_.rows + stage, Lane() == 0, all);
    const int chunk = Lane();
    if (chunk >= (together ? 1 : walk.count())) return;
    CopyBulk(block_.shared + stage * block_.stage_bytes + args_.tiles * Shape::kTileBytes +
                 chunk * Shape::kRowBytes,
             reinterpret_cast<const char*>(args_.product.in) +
                 int64_t{1} * (walk.chunk() + chunk) * of_chunk,
             together ? all : of_chunk, block_.rows + stage);
  }

  const RingArgs& args_;
  const RingBlock<Shape>& block_;
  const int warp_;  // of those that fetch
};

// A warp's part: 16 features. A warp beyond the tiles of an item multiplies some of them again.
template <bool kBf16, class Shape>
class RingMultiplier {
 public:
  TUTTI_DEVICE RingMultiplier(const RingArgs& args, const RingBlock<Shape>& block)
      : args_(args),
        block_(block),
        weights_(block.shared + (WarpIndex() < args.tiles ? WarpIndex() : 0) * Shape::kTileBytes +
                 Lane() * 16),
        rows_(MatrixDescriptor(SharedAddress(block.shared + args.tiles * Shape::kTileBytes),
                               kCoreMatrixBytes, kPieceBytes)) {}

  TUTTI_DEVICE void Run() {
    const ProductArgs& product = args_.product;
    TUTTI_KEEP_LOOP
    for (auto index = static_cast<int32_t>(BlockX()); index < args_.items;
         index += static_cast<int32_t>(BlockCountX())) {
      const RingItem item = ItemAt(args_, index);
      float sum[Shape::kSums];
      float* out = product.out;
      int64_t stride = product.out_stride;
      SumLeaf(item.leaf, sum);
      if (product.leaves.leaves > 1) {
        stride = product.out_features;
        out = product.leaf_sums + item.leaf * product.rows * stride;
      }
      if (WarpIndex() >= args_.tiles) continue;
      StoreSums(product, out, stride, 0, (item.first_tile + WarpIndex()) * kTileOut, sum);
    }
  }

 private:
  // The words of a stage's instructions.
  using Weights = uint32_t[2 * Shape::kChunks][4];

  TUTTI_DEVICE void SumLeaf(int32_t leaf, float (&sum)[Shape::kSums]) {
    TUTTI_UNROLL
    for (float& x : sum) x = 0;
    const int32_t chunks = args_.product.leaves.chunk[leaf + 1] - args_.product.leaves.chunk[leaf];
    // Two sets of weights take turns: while one is multiplied, the other comes.
    Weights even, odd;
    int32_t stages = chunks / Shape::kChunks;
    if (stages > 0) {
      Begin<Shape::kChunks>(sum, even);
      --stages;
      TUTTI_KEEP_LOOP
      for (; stages >= 2; stages -= 2) {
        Begin<Shape::kChunks>(sum, odd);
        EndOneBefore();
        Begin<Shape::kChunks>(sum, even);
        EndOneBefore();
      }
      if (stages > 0) {
        Begin<Shape::kChunks>(sum, odd);
        EndOneBefore();
      }
      WgmmaWait<0>();
      Release();
    }
    TUTTI_KEEP_LOOP
    for (int32_t left = chunks % Shape::kChunks; left > 0; --left) {
      Begin<1>(sum, even);
      WgmmaWait<0>();
      Release();
    }
    AcceptSums(sum);
    ScaleBackAll<kBf16>(args_.product, leaf, 0, sum);
  }

  // Starts the next stage.
  template <int kCount>
  TUTTI_DEVICE void Begin(float (&sum)[Shape::kSums], Weights& a) {
    AwaitPhase(block_.full + next_.stage, next_.parity);
    AwaitPhase(block_.rows + next_.stage, next_.parity);
    const int offset = next_.stage * block_.stage_bytes;
    TUTTI_UNROLL
    for (int chunk = 0; chunk < kCount; ++chunk) {
      LoadWeights(weights_ + offset + chunk * Shape::kChunkBytes, a[2 * chunk], a[2 * chunk + 1]);
    }
    const uint64_t rows = MatrixBehind(rows_, offset);
    WgmmaFence();
    TUTTI_UNROLL
    for (int i = 0; i < 2 * kCount; ++i) {
      Wgmma<kBf16>(sum, a[i],
                   MatrixBehind(rows, i / 2 * Shape::kRowBytes + i % 2 * 2 * kCoreMatrixBytes));
    }
    WgmmaCommit();
    next_.Advance(args_.stages);
  }
  TUTTI_DEVICE void EndOneBefore() {
    WgmmaWait<1>();
    Release();
  }
  // The oldest stage that was begun has been read.
  TUTTI_DEVICE void Release() {
    SyncWarp();
    if (Lane() == 0) Arrive(block_.empty + oldest_);
    oldest_ = oldest_ + 1 == args_.stages ? 0 : oldest_ + 1;
  }

  const RingArgs& args_;
  const RingBlock<Shape>& block_;
  const char* const weights_;  // this lane's, of stage 0
  const uint64_t rows_;        // of stage 0
  RingPlace next_;
  int32_t oldest_ = 0;
};

template <bool kBf16, class Shape>
TUTTI_BLOCKS_KERNEL(Shape::kThreadsMax, Shape::kBlocksMin)
RingProduct(TUTTI_PARAMETER RingArgs args) {
  LetNextBegin();
  const RingBlock<Shape> block(args);
  if (WarpIndex() >= block.warps) {
    ReleaseRegisters<Shape::kFetchRegisters>();
    RingFetcher<Shape>(args, block).Run();
  } else {
    ClaimRegisters<Shape::kMultiplyRegisters>();
    WaitForEarlier();
    RingMultiplier<kBf16, Shape>(args, block).Run();
  }
}

template <bool kBf16, class Shape>
void LaunchShape(const ProductArgs& args, const RingShares& shares, Launcher* launcher) {
  constexpr int kBarriersBytes = 3 * 8;  // of a stage
  const int stage_bytes = Shape::StageBytes(shares.tiles) + kBarriersBytes;
  const int stages = std::clamp(Shape::kSharedBytes / stage_bytes, kRingStagesMin, kRingStagesMax);
  const int warpgroups = (shares.tiles * kWarp + kWarpgroup - 1) / kWarpgroup;
  // Of a multiprocessor's 228 KiB, 1 KiB beside each block is the system's.
  constexpr int kSharedBytesMax = (228 << 10) / Shape::Sharing() - (1 << 10);
  static_assert(Shape::kSharedBytes <= kSharedBytesMax);
  static_assert(kRingStagesMin * (Shape::StageBytes(Shape::kTilesMax) + kBarriersBytes) <=
                kSharedBytesMax);
  LaunchEarly(&RingProduct<kBf16, Shape>, {shares.blocks}, (warpgroups + 1) * kWarpgroup,
              stages * stage_bytes, launcher,
              RingArgs{.product = args,
                       .items = shares.items,
                       .tiles = shares.tiles,
                       .stages = stages,
                       .burst = std::max(kRingBurstBytes / Shape::Sharing() / stage_bytes, 2)});
}

// Few tiles leave the loop the least time for a turn, so their stages may be long. Rows that are
// next to nothing may be brought twice: two blocks of half the tiles share a multiprocessor.
template <bool kBf16, class Few, class Many>
void LaunchEither(const ProductArgs& args, int32_t multiprocessors, Launcher* launcher) {
  const RingShares shares =
      ShareOut(args, multiprocessors, Many::Sharing() == 1 ? Many::kTilesMax : kRingTilesMax);
  if (shares.tiles <= Few::kTilesMax) return LaunchShape<kBf16, Few>(args, shares, launcher);
  if constexpr (Many::Sharing() == 1) {
    LaunchShape<kBf16, Many>(args, shares, launcher);
  } else {
    const int32_t blocks = Many::Sharing() * multiprocessors;
    LaunchShape<kBf16, Many>(args, ShareOut(args, blocks, Many::kTilesMax), launcher);
  }
}

template <bool kBf16>
void LaunchRing(const ProductArgs& args, int32_t multiprocessors, Launcher* launcher) {
  const auto launch = [&]<class Few, class Many>(Few, Many) {
    LaunchEither<kBf16, Few, Many>(args, multiprocessors, launcher);
  };
  if (args.rows <= 8) return launch(RingShape<8, 4, 4>(), RingShape<8, 2, 8, 2>());
  if (args.rows <= 16) return launch(RingShape<16, 4, 4>(), RingShape<16, 2, kRingTilesMax>());
  if (args.rows <= 32) return launch(RingShape<32, 4, 4>(), RingShape<32, 2, kRingTilesMax>());
  if (args.rows <= 64) return launch(RingShape<64, 2, 4>(), RingShape<64, 2, kRingTilesMax>());
  launch(RingShape<128, 2, 4>(), RingShape<128, 2, 8>());
}

}  // namespace

void LaunchRingProduct(DType type, const ProductArgs& args, int32_t multiprocessors,
                       Launcher* launcher) {
  if (type == DType::kBF16) {
    LaunchRing<true>(args, multiprocessors, launcher);
  } else {
    LaunchRing<false>(args, multiprocessors, launcher);
  }
  if (args.out != nullptr) LaunchAddLeafSums(args, launcher);
}

}  // namespace tutti::kernels::cuda
