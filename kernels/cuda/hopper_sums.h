// What products by Wgmma share: the ring through which chunks come, how weights reach a warp's
// lanes, and how the sums that these hold are scaled and stored.
#pragma once

#include "kernels/cuda/gpu_hopper.h"
#include "kernels/cuda/product_tile.h"

namespace tutti::kernels::cuda {

// A place in a ring that goes round with the chunks of all tiles of a block.
struct RingPlace {
  int32_t stage = 0;
  uint32_t parity = 0;  // of the stage's phase
  TUTTI_DEVICE void Advance(int32_t stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Warps that fetch what a block multiplies, a warpgroup of them.
inline constexpr int kFetchers = kWarpgroup / kWarp;
// Of each fetching warp, whose lanes have waited until a stage was empty: that it is to be filled.
// Lanes and warps that copy nothing arrive as the others do: the stage's next phase cannot end
// before all have seen the one before. One that sees neither would wait for ever, as the phase
// after those has the same parity.
//   announces: one thread of all; `bytes` are those of the whole stage
TUTTI_DEVICE void ArriveFetching(ArrivalBarrier* full, bool announces, int bytes) {
  SyncWarp();
  if (announces) {
    ArriveExpecting(full, bytes);
  } else if (Lane() == 0) {
    Arrive(full);
  }
}

// The words of a chunk's two instructions, from this lane's place in a tile's weights in shared
// memory.
TUTTI_DEVICE void LoadWeights(const char* from, uint32_t (&first)[4], uint32_t (&second)[4]) {
  const Words upper = *reinterpret_cast<const Words*>(from);
  const Words lower = *reinterpret_cast<const Words*>(from + kPieceBytes);
  TUTTI_UNROLL
  for (int i = 0; i < 2; ++i) {
    uint32_t(&a)[4] = i == 0 ? first : second;
    a[0] = upper.w[2 * i];
    a[1] = lower.w[2 * i];
    a[2] = upper.w[2 * i + 1];
    a[3] = lower.w[2 * i + 1];
  }
}

// As ScaleBack, of the rows from `row` on. Each lane reads the scales of a few rows and hands them
// to the lanes that need them.
template <bool kBf16, int kSums>
TUTTI_DEVICE void ScaleBackAll(const ProductArgs& args, int32_t leaf, int32_t row,
                               float (&sum)[kSums]) {
  if constexpr (!kBf16) {
    constexpr int kTiles = kWarp / kTileRows;  // whose rows the lanes of a warp read at once
    float scale_of_row = 1;
    TUTTI_UNROLL
    for (int tile = 0; tile < kSums / 4; ++tile) {
      if (tile % kTiles == 0) {
        const int32_t r = row + tile * kTileRows + Lane();
        scale_of_row = r < args.rows ? args.scale[ScaleIndex(r, leaf, args.leaves)] : 1;
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
}

// Of rows from `row` and 16 features from `feature` on, to `out` [rows, features].
template <int kSums>
TUTTI_DEVICE void StoreSums(const ProductArgs& args, float* out, int64_t stride, int32_t row,
                            int32_t feature, const float (&sum)[kSums]) {
  TUTTI_UNROLL
  for (int tile = 0; tile < kSums / 4; ++tile) {
    // Not a reference into `sum`, which would then have to have an address.
    float part[4];
    TUTTI_UNROLL
    for (int i = 0; i < 4; ++i) part[i] = sum[4 * tile + i];
    StoreTile(part, out, stride, row + tile * kTileRows, args.rows, feature, args.out_features);
  }
}

}  // namespace tutti::kernels::cuda
