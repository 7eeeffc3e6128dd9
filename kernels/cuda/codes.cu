// Products of few rows with codes.
#include "kernels/cuda/codes.h"
#include "kernels/cuda/codes_stage.h"
#include "kernels/cuda/leaf_sums.h"

namespace tutti::kernels::cuda {
namespace {

// What a block of so many warps has in shared memory, one behind the other: the rings of its warps
// and, of several warps, sums of the strips of a round and their scales, twice, and sums of leaves.
template <CodeKind kKind, int kRowTiles, int kWarps>
struct FewShape {
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kParts = kUnitTiles * 4;  // sums of a lane of one tile of rows
  // Sums that a thread adds up over strips and leaves.
  static constexpr int kOwn = kParts * kRowTiles / kWarps;
  // Strips of which a warp has the sums before those of all are added up; with two tiles of rows
  // they take twice the memory.
  static constexpr int kRun = kWarps > 1 && kRowTiles == 1 ? 2 : 1;
  static constexpr int kRoundStrips = kWarps * kRun;
  static constexpr int kSlotFloats = kParts * kRowTiles * kWarp;
  static constexpr int kRoundFloats = kRoundStrips * (kSlotFloats + kUnitOut);
  static constexpr int kLeafFloats = kLeavesMax * kOwn * kThreads;
  static constexpr int kSumBytes = kWarps == 1 ? 0 : (2 * kRoundFloats + kLeafFloats) * 4;

  static constexpr int kStageBytes = UnitStage<kKind>::kBytes + kRowTiles * kPieceBytes;
  static constexpr int kStages =
      kWarps == 1 ? kLoneCodeStages : (kFewCodesBytes - kSumBytes) / (kWarps * kStageBytes);
  static constexpr int kWarpRingBytes = kStages * kStageBytes;
  static constexpr int kRingBytes = kWarps * kWarpRingBytes;
  static constexpr int kSharedBytes = kRingBytes + kSumBytes;
  static_assert(kStages >= 3);
};

// What a lane asks for next: its place in the chunks of the strips of its warp.
template <CodeKind kKind, int kRowTiles, int kWarps>
struct Ahead {
  using Shape = FewShape<kKind, kRowTiles, kWarps>;
  const CodesArgs& args;
  const int64_t unit;
  const int lane = Lane();
  int32_t strip, left = 0;  // chunks of it that are left
  bool there = false, fresh = false;
  const uint8_t* codes = nullptr;
  const uint8_t* beside = nullptr;
  const uint16_t* rows = nullptr;

  TUTTI_DEVICE Ahead(const CodesArgs& args, int64_t unit, int warp)
      : args(args), unit(unit), strip(warp * Shape::kRun) {
    Enter();
  }
  TUTTI_DEVICE void Enter() {
    there = strip < args.strips;
    if (!there) return;
    const int32_t chunk = args.strip_chunk[strip];
    left = args.strip_chunk[strip + 1] - chunk;
    fresh = true;
    codes = args.codes + lane * 16 +
            (unit * Chunks(args.leaves) + chunk) * UnitStage<kKind>::kCodeBytes;
    beside = BesideOf<kKind>(args, unit, chunk, strip);
    rows = args.in + int64_t{1} * chunk * kPieceValues + lane * 8;
  }
  TUTTI_DEVICE void Next() {
    if (!there) return;
    codes += UnitStage<kKind>::kCodeBytes;
    rows += kPieceValues;
    fresh = false;
    if constexpr (HasInnerScales(kKind)) beside += 2 * kUnitOut;
    if (--left > 0) return;
    ++strip;
    if (strip % Shape::kRun == 0) strip += (kWarps - 1) * Shape::kRun;
    Enter();
  }

  TUTTI_DEVICE void FetchCodes(char* stage) const {
    TUTTI_UNROLL
    for (int i = 0; i < WordsOfOutput(kKind); ++i) {
      CopyAsync16(stage + i * 512 + lane * 16, codes + i * 512, there);
    }
    if (!there || !HasOffsets<kKind>(args, fresh) || lane >= kBesideCopies<kKind>) return;
    CopyAsync16(stage + UnitStage<kKind>::kCodeBytes + lane * 16, beside + lane * 16, true);
  }
  TUTTI_DEVICE void FetchRows(char* stage) const {
    TUTTI_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      const bool valid = there && r * kTileRows + lane / 4 < args.rows;
      CopyAsync16(stage + UnitStage<kKind>::kBytes + r * kPieceBytes + lane * 16,
                  rows + int64_t{1} * r * Chunks(args.leaves) * kPieceValues, valid);
    }
    CopyCommit();
  }
};

// A thread of a block, which has a unit of outputs.
template <CodeKind kKind, int kRowTiles, int kWarps>
struct FewRows {
  using Shape = FewShape<kKind, kRowTiles, kWarps>;
  using Part = float[kUnitTiles][kRowTiles][4];
  static constexpr int kAhead = Shape::kStages - 1;

  const CodesArgs& args;
  const int lane = Lane(), warp = WarpIndex();
  const int64_t unit = BlockX();
  char* const ring = SharedMemory() + warp * Shape::kWarpRingBytes;
  Ahead<kKind, kRowTiles, kWarps> ahead{args, unit, warp};
  // Of the ring: where the next chunk to multiply is, and the one before it.
  int at = 0, free = kAhead * Shape::kStageBytes;
  uint32_t offset[kRowsOfLane] = {};

  // All that the ring holds of the codes comes before the rows are there.
  TUTTI_DEVICE void Begin() {
    LoadOffsets<kKind>(nullptr, offset);
    for (int n = 0; n < kAhead; ++n, ahead.Next()) ahead.FetchCodes(ring + n * Shape::kStageBytes);
    WaitForEarlier();
    ahead.strip = warp * Shape::kRun;
    ahead.Enter();
    for (int n = 0; n < kAhead; ++n, ahead.Next()) ahead.FetchRows(ring + n * Shape::kStageBytes);
  }

  // The sums of the warp's next strip, of `count` chunks.
  TUTTI_DEVICE void MultiplyStrip(int32_t count, Part& part) {
    for (int32_t n = 0; n < count; ++n) {
      CopyWait<kAhead - 1>();
      const char* const stage = ring + at;
      // What is beside the codes comes by other lanes.
      if (HasOffsets<kKind>(args, n == 0)) {
        SyncWarp();
        LoadOffsets<kKind>(stage + UnitStage<kKind>::kCodeBytes, offset);
      }
      Words weights[kRowsOfLane];
      ExpandUnit<kKind>(stage, offset, weights);
      TUTTI_UNROLL
      for (int r = 0; r < kRowTiles; ++r) {
        const Words rows = *reinterpret_cast<const Words*>(stage + UnitStage<kKind>::kBytes +
                                                           r * kPieceBytes + lane * 16);
        TUTTI_UNROLL
        for (int i = 0; i < kUnitTiles; ++i) {
          MultiplyChunk<true>(part[i][r], weights[2 * i], weights[2 * i + 1], rows);
        }
      }
      ahead.FetchCodes(ring + free);
      ahead.FetchRows(ring + free);
      ahead.Next();
      free = at;
      at = at == kAhead * Shape::kStageBytes ? 0 : at + Shape::kStageBytes;
    }
  }
  TUTTI_DEVICE int32_t ChunksOf(int32_t strip) const {
    return args.strip_chunk[strip + 1] - args.strip_chunk[strip];
  }

  // Where part `i` of a lane's sums, of row tile `r`, belongs.
  TUTTI_DEVICE void Store(int r, int i, float sum) const {
    const int32_t row = r * kTileRows + 2 * (lane % 4) + i % 2;
    const int64_t out = unit * kUnitOut + OutputOfPart(i / 4, i % 4) * kPieceRows + lane / 4;
    if (row < args.rows && out < args.out_features) args.out[row * args.out_stride + out] = sum;
  }
};

// Sums of strips added up over leaves, by the threads of a block of several warps: a thread has
// part `warp` of each tile of rows.
template <class Rows>
struct StripSums {
  using Shape = typename Rows::Shape;
  static constexpr int kOwn = Shape::kOwn;
  static constexpr int kScales = Shape::kRoundStrips * kUnitOut / Shape::kThreads;  // of a thread
  const CodesArgs& args;
  const int64_t unit;
  float* const rounds = reinterpret_cast<float*>(SharedMemory() + Shape::kRingBytes);
  float* const leaf_sums = rounds + 2 * Shape::kRoundFloats + ThreadIndex();
  int leaf = 0;
  int32_t leaf_end = args.leaf_strip[1];
  float sum[kOwn] = {};

  TUTTI_DEVICE static int PartAt(int r, int i) { return (r * Shape::kParts + i) * kWarp + Lane(); }
  TUTTI_DEVICE static float* ScalesOf(float* round) {
    return round + Shape::kRoundStrips * Shape::kSlotFloats;
  }

  // The thread's share of the scales of the round whose first strip is `first`.
  TUTTI_DEVICE void AskForScales(int32_t first, float (&scale)[kScales]) const {
    const int64_t begin = (unit * args.strips + first) * kUnitOut;
    TUTTI_UNROLL
    for (int n = 0; n < kScales; ++n) {
      const int i = n * Shape::kThreads + ThreadIndex();
      scale[n] = first + i / kUnitOut < args.strips
                     ? LoadValue(args.scales, args.scale_type, begin + i)
                     : 0;
    }
  }
  TUTTI_DEVICE static void StoreScales(const float (&scale)[kScales], float* round) {
    TUTTI_UNROLL
    for (int n = 0; n < kScales; ++n) {
      ScalesOf(round)[n * Shape::kThreads + ThreadIndex()] = scale[n];
    }
  }
  template <class Part>
  TUTTI_DEVICE static void StoreStrip(const Part& part, float* slot) {
    TUTTI_UNROLL
    for (int r = 0; r < kOwn; ++r) {
      TUTTI_UNROLL
      for (int i = 0; i < Shape::kParts; ++i) slot[PartAt(r, i)] = part[i / 4][r][i % 4];
    }
  }

  // The leaf whose last strip was the one before `strip`, and empty ones behind it.
  TUTTI_DEVICE void EndLeaves(int32_t strip) {
    while (leaf < args.leaves.leaves && args.leaf_strip[leaf + 1] <= strip) {
      TUTTI_UNROLL
      for (int r = 0; r < kOwn; ++r) {
        leaf_sums[(leaf * kOwn + r) * Shape::kThreads] = sum[r];
        sum[r] = 0;
      }
      ++leaf;
    }
    leaf_end = args.leaf_strip[leaf < args.leaves.leaves ? leaf + 1 : leaf];
  }
  // Adds the strips of a round, which all warps have stored.
  TUTTI_DEVICE void AddRound(int32_t first, float* round) {
    const int part = WarpIndex();
    const int slot = Lane() / 4 * kRowsOfLane + OutputOfPart(part / 4, part % 4);
    const float* const scale = ScalesOf(round) + slot;
    const int32_t left = args.strips - first;
    const int count = left < Shape::kRoundStrips ? left : Shape::kRoundStrips;
    for (int s = 0; s < count;) {
      const int end = leaf_end - first < count ? leaf_end - first : count;
      for (; s < end; ++s) {
        TUTTI_UNROLL
        for (int r = 0; r < kOwn; ++r) {
          sum[r] = FusedMultiplyAdd(round[s * Shape::kSlotFloats + PartAt(r, part)],
                                    scale[s * kUnitOut], sum[r]);
        }
      }
      if (first + s == leaf_end) EndLeaves(first + s);
    }
  }
  TUTTI_DEVICE float Total(int r) const {
    return SumOfLeaves(leaf_sums + r * Shape::kThreads, int64_t{kOwn} * Shape::kThreads,
                       args.leaves.leaves);
  }
};

// The warps of a block share the strips between them: in every round each warp multiplies a run of
// them, then each thread adds the strips of all to the outputs that are its own.
template <CodeKind kKind, int kRowTiles, int kWarps>
TUTTI_KERNEL_OF(kWarps* kWarp)
void FewRowsOfCodes(TUTTI_PARAMETER CodesArgs args) {
  using Rows = FewRows<kKind, kRowTiles, kWarps>;
  using Shape = typename Rows::Shape;
  using Sums = StripSums<Rows>;
  LetNextBegin();
  Rows rows{args};
  Sums sums{args, rows.unit};
  rows.Begin();
  int round = 0;
  for (int32_t first = 0; first < args.strips; first += Shape::kRoundStrips, round ^= 1) {
    float* const here = sums.rounds + round * Shape::kRoundFloats;
    float scale[Sums::kScales];
    sums.AskForScales(first, scale);
    TUTTI_UNROLL
    for (int s = 0; s < Shape::kRun; ++s) {
      const int own = rows.warp * Shape::kRun + s;
      if (first + own >= args.strips) continue;
      typename Rows::Part part = {};
      rows.MultiplyStrip(rows.ChunksOf(first + own), part);
      Sums::StoreStrip(part, here + own * Shape::kSlotFloats);
    }
    Sums::StoreScales(scale, here);
    // Those of the round before are read before those of the next are written.
    SyncBlock();
    sums.AddRound(first, here);
  }
  sums.EndLeaves(args.strips);
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) rows.Store(r, rows.warp, sums.Total(r));
}

// The same of one strip: a block is one warp.
template <CodeKind kKind, int kRowTiles>
TUTTI_KERNEL_OF(kWarp)
void FewRowsOfOneStrip(TUTTI_PARAMETER CodesArgs args) {
  using Rows = FewRows<kKind, kRowTiles, 1>;
  LetNextBegin();
  Rows rows{args};
  rows.Begin();
  float scale[kRowsOfLane];
  LoadScales(args, rows.unit, 0, scale);
  typename Rows::Part part = {};
  rows.MultiplyStrip(rows.ChunksOf(0), part);
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    TUTTI_UNROLL
    for (int i = 0; i < Rows::Shape::kParts; ++i) {
      const float sum =
          FusedMultiplyAdd(part[i / 4][r][i % 4], scale[OutputOfPart(i / 4, i % 4)], 0);
      // Leaves beside it are empty: zeros, which change the sign of a zero.
      rows.Store(r, i, args.leaves.leaves == 1 ? sum : sum + 0.f);
    }
  }
}

template <CodeKind kKind, int kRowTiles>
void LaunchFew(const CodesArgs& args, Launcher* launcher) {
  // A warp for each part of a lane's sums.
  using Shape = FewShape<kKind, kRowTiles, kUnitTiles * 4>;
  using OneStrip = FewShape<kKind, kRowTiles, 1>;
  const Grid grid = {UnitsOf(args.out_features)};
  if (args.strips == 1) {
    return LaunchEarly(&FewRowsOfOneStrip<kKind, kRowTiles>, grid, kWarp, OneStrip::kSharedBytes,
                       launcher, args);
  }
  LaunchEarly(&FewRowsOfCodes<kKind, kRowTiles, kUnitTiles * 4>, grid, Shape::kThreads,
              Shape::kSharedBytes, launcher, args);
}

template <CodeKind kKind>
void LaunchFewOf(const CodesArgs& args, Launcher* launcher) {
  args.rows <= kTileRows ? LaunchFew<kKind, 1>(args, launcher)
                         : LaunchFew<kKind, 2>(args, launcher);
}

}  // namespace

void LaunchFewRowsOfCodes(const CodesArgs& args, Launcher* launcher) {
  switch (args.kind) {
    case CodeKind::kInt4:
      return LaunchFewOf<CodeKind::kInt4>(args, launcher);
    case CodeKind::kInt8:
      return LaunchFewOf<CodeKind::kInt8>(args, launcher);
    case CodeKind::kE2m1:
      return LaunchFewOf<CodeKind::kE2m1>(args, launcher);
    case CodeKind::kE4m3:
      return LaunchFewOf<CodeKind::kE4m3>(args, launcher);
    case CodeKind::kNvfp4:
      return LaunchFewOf<CodeKind::kNvfp4>(args, launcher);
  }
}

void LaunchCodesProduct(const CodesArgs& args, Launcher* launcher) {
  if (args.rows <= kStreamRows) return LaunchFewRowsOfCodes(args, launcher);
  LaunchManyRowsOfCodes(args, launcher);
}

}  // namespace tutti::kernels::cuda
