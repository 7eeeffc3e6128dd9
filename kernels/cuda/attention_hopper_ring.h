// What the warps of a block of attention_hopper.cu share: the ring through which tiles come, and
// what a warpgroup's threads tell each other.
#pragma once

#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/gpu_hopper.h"

namespace tutti::kernels::cuda {

inline constexpr int kGroups = kWidePairs / kGroupPairs;
inline constexpr int kGroupWarps = kWarpgroup / kWarp;
inline constexpr int kAttendThreads = (kGroups + 1) * kWarpgroup;
// 65,536 registers: 240 for each of 256 threads that attend, 24 for each of the other 128.
inline constexpr int kAttendRegisters = 240, kBringRegisters = 24;
// Keys of a tile, or its values.
inline constexpr int kRingStages = 4;
// Of the weights of a warpgroup's pairs for the slots of a unit: core matrices of 8 pairs by 8
// slots, and as many bytes between units as spread a warp's stores over all banks.
inline constexpr int kWeightPairsBytes = kPieceRows * kKvUnit * 2;
inline constexpr int kWeightUnitBytes = kGroupPairs * kKvUnit * 2 + 16;
inline constexpr int kPairTiles = kGroupPairs / kPieceRows;

struct alignas(16) Floats {
  float x[4];
};

// What threads of a warpgroup tell each other of its pairs.
struct GroupMemory {
  float largest[kGroupPairs][kGroupWarps];  // scores of a tile, of each warp's slots
  float scale[kGroupPairs][2];              // FoldScale::before and tile; before < 0: not any
  float sum[kGroupPairs];                   // of all tiles
  int32_t position[kGroupPairs];            // -1: no pair
  int64_t target[kGroupPairs];              // of the result's first value, in values
  uint32_t left_out[kGroupWarps];           // whether the tile changes nothing of a warp's pair
  uint32_t not_finite[kGroupWarps];         // whether a warp found such values

  TUTTI_DEVICE float LargestOf(int pair) const {
    const Floats warps = *reinterpret_cast<const Floats*>(largest[pair]);
    return fmaxf(fmaxf(warps.x[0], warps.x[1]), fmaxf(warps.x[2], warps.x[3]));
  }
};
static_assert(sizeof(GroupMemory) % 16 == 0);

template <int kHeadDim>
struct AttendShape {
  static constexpr int kDim = kHeadDim;
  static constexpr int kUnitBytes = kKvUnit * kDim * 2;
  static constexpr int kStageBytes = kTileUnits * kUnitBytes;
  static constexpr int kQueryChunkBytes = kGroupPairs * kChunkK * 2;
  static constexpr int kQueryBytes = kDim / kChunkK * kQueryChunkBytes;
  static constexpr int kWeightBytes = kTileUnits * kWeightUnitBytes;
  static constexpr int kGroupBytes =
      kQueryBytes + kWeightBytes + static_cast<int>(sizeof(GroupMemory));
  static constexpr int kGroupsAt = kRingStages * kStageBytes;
  static constexpr int kBarriersAt = kGroupsAt + kGroups * kGroupBytes;
  static constexpr int kSharedBytes = kBarriersAt + 2 * kRingStages * 8;
  static constexpr int kDimTiles = kDim / kWgmmaOut;
  static_assert(kSharedBytes <= 227 << 10);
};

// The ring of a block: keys and values of each tile in turn.
template <class Shape>
struct TileRing {
  char* const shared = SharedMemory();
  ArrivalBarrier* const full = reinterpret_cast<ArrivalBarrier*>(shared + Shape::kBarriersAt);
  ArrivalBarrier* const empty = full + kRingStages;
  int32_t stage = 0;
  uint32_t parity = 0;  // of the stage's phase

  TUTTI_DEVICE void Init() const {
    if (ThreadIndex() == 0) {
      for (int i = 0; i < kRingStages; ++i) {
        InitBarrier(full + i, 1);
        InitBarrier(empty + i, kGroups * kGroupWarps);
      }
      PublishBarriers();
    }
    SyncBlock();
  }
  TUTTI_DEVICE char* data() const { return shared + stage * Shape::kStageBytes; }
  TUTTI_DEVICE void Advance() {
    if (++stage == kRingStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  TUTTI_DEVICE void AwaitFull() const { AwaitPhase(full + stage, parity); }
  // The warp has read the stage.
  TUTTI_DEVICE void Release() {
    SyncWarp();
    if (Lane() == 0) Arrive(empty + stage);
    Advance();
  }
};

// A warp brings every tile, each of its first lanes a unit. Units after the last position of the
// item stay as they are.
template <class Shape>
TUTTI_DEVICE void BringTiles(const AttentionArgs& args, const AttentionItem& item, int32_t head,
                             TileRing<Shape> ring) {
  const int32_t last = item.first_position + (item.pair_end - 1) / args.group;
  TUTTI_KEEP_LOOP
  for (int32_t tile = item.tile_begin; tile < item.tile_end; ++tile) {
    const int32_t first_slot = tile * kAttentionTile;
    const int32_t slot = first_slot + Lane() * kKvUnit;
    const int32_t left = (last - first_slot) / kKvUnit + 1;
    const int32_t units = left < kTileUnits ? left : kTileUnits;
    const char* from = nullptr;
    if (Lane() < units) {
      const int32_t block = args.blocks[item.block_begin + slot / args.layout.block_size];
      from = static_cast<const char*>(args.cache) +
             KvUnitIndex(args.layout, block, slot % args.layout.block_size, head, false) * 2;
    }
    TUTTI_KEEP_LOOP
    for (int value = 0; value < 2; ++value) {
      AwaitPhase(ring.empty + ring.stage, ring.parity ^ 1);
      if (Lane() == 0) ArriveExpecting(ring.full + ring.stage, units * Shape::kUnitBytes);
      SyncWarp();
      if (Lane() < units) {
        CopyBulk(ring.data() + Lane() * Shape::kUnitBytes, from + value * Shape::kUnitBytes,
                 Shape::kUnitBytes, ring.full + ring.stage);
      }
      ring.Advance();
    }
  }
}

// Looks for Inf and NaN among the values of slots [begin, end) of a tile, if there are any: those
// that only some pairs of the warpgroup may see. Each warp then says what it found.
template <bool kBf16, class Shape>
TUTTI_DEVICE bool FindNotFinite(const char* values, int warp, int32_t begin, int32_t end,
                                GroupMemory* memory) {
  begin = begin > 0 ? begin : 0;
  end = end < kAttentionTile ? end : kAttentionTile;
  if (begin >= end) return false;
  constexpr uint32_t kExponent = kBf16 ? 0x7f80u : 0x7c00u;
  constexpr int kSlots = 8;  // of 16 bytes
  constexpr int kWordsOfUnit = Shape::kDim * kKvUnit / kSlots;
  bool found = false;
  TUTTI_KEEP_LOOP
  for (int32_t i = begin / kKvUnit * kWordsOfUnit + ThreadIndex() % kWarpgroup;
       i < (end + kKvUnit - 1) / kKvUnit * kWordsOfUnit; i += kWarpgroup) {
    const int32_t slot = i / kWordsOfUnit * kKvUnit + i % 2 * kSlots;
    const Words words = *reinterpret_cast<const Words*>(values + i * 16);
    TUTTI_UNROLL
    for (int s = 0; s < kSlots; ++s) {
      const bool of_some = slot + s >= begin && slot + s < end;
      const uint32_t bits = words.w[s / 2] >> (s % 2 * 16) & kExponent;
      found = found || (of_some && bits == kExponent);
    }
  }
  const bool any = AnyInWarp(found);
  if (Lane() == 0) memory->not_finite[warp] = any ? 1 : 0;
  return true;
}
// Whether a warp of the warpgroup said so.
TUTTI_DEVICE bool AnyOf(const uint32_t (&flags)[kGroupWarps]) {
  return AnyInWarp((flags[0] | flags[1] | flags[2] | flags[3]) != 0);
}

// Of 2 kKept numbers; a lane 2 kKept further keeps the others.
template <int kKept>
TUTTI_DEVICE void KeepHalf(int g, float (&largest)[kGroupPairs / 4]) {
  const bool upper = (g & kKept / 2) != 0;
  TUTTI_UNROLL
  for (int i = 0; i < kKept; ++i) {
    const float own = upper ? largest[i + kKept] : largest[i];
    const float other = upper ? largest[i] : largest[i + kKept];
    largest[i] = fmaxf(own, ShuffleXor(other, kKept * 2));
  }
}

}  // namespace tutti::kernels::cuda
