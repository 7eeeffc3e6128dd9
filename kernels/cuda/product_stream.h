// Products of few rows: the walk of one warp over a leaf.
#pragma once

#include "kernels/cuda/product_tile.h"

namespace tutti::kernels::cuda {

// The place of a lane's values in a block's 16 features of a weight.
template <bool kPlainRows>
struct StreamedWeights {
  // From a chunk to the next.
  static constexpr int kChunkValues = kPlainRows ? kChunkK : 2 * kPieceValues;
  // From the upper eight features to the lower.
  TUTTI_DEVICE static int64_t HalfValues(int32_t chunks) {
    return kPlainRows ? PlainRowIndex(kPieceRows, 0, chunks) : kPieceValues;
  }
  TUTTI_DEVICE static int64_t First(int32_t chunks, int32_t chunk, int lane) {
    if constexpr (kPlainRows) {
      return PlainRowIndex(BlockX() * kTileOut + lane / 4, chunk * kChunkK, chunks) + lane % 4 * 8;
    } else {
      return (BlockX() * chunks + chunk) * 2 * kPieceValues + lane * 8;
    }
  }
};

// Chunks of a ring that a warp asks for at once: all where a leaf is alone, as its warps are few.
template <int kStages>
inline constexpr int kStreamBurst = kStages == kStreamStages ? kStages - 1 : kLeafStreamBurst;

// Few rows: a warp streams 16 features of one leaf. A lane multiplies exactly the values that it
// copied, so nothing waits for another lane.
//
// A turn of the outer loop goes once round the ring, so that every address is one of three pointers
// and a constant: a warp that has a multiprocessor's quarter to itself cannot spend more than a
// hundred cycles on a chunk.
template <bool kBf16, bool kPlainRows, int kRowTiles, int kStages>
TUTTI_DEVICE void StreamLeaf(const ProductArgs& args, int leaf, char* warp_ring,
                             float (&sum)[kRowTiles][4]) {
  constexpr int kStageBytes = (2 + kRowTiles) * kPieceBytes;
  constexpr int kAhead = kStages - 1;
  const int lane = Lane();
  const int32_t chunks = Chunks(args.leaves);
  const int32_t first = args.leaves.chunk[leaf], count = args.leaves.chunk[leaf + 1] - first;
  // Of the chunk with which the ring begins.
  const uint16_t* weight = args.weight + StreamedWeights<kPlainRows>::First(chunks, first, lane);
  constexpr int kChunkValues = StreamedWeights<kPlainRows>::kChunkValues;
  const int64_t half_values = StreamedWeights<kPlainRows>::HalfValues(chunks);
  const uint16_t* in = args.in + int64_t{1} * first * kPieceValues + lane * 8;
  const int64_t row_tile = int64_t{1} * chunks * kPieceValues;
  char* const ring = warp_ring + lane * 16;

  // Chunk `ahead` from where the pointers stand, if there are so many.
  const auto fetch_weights = [&](int ahead, int32_t left) {
    if (ahead >= left) return;
    char* const stage = ring + ahead % kStages * kStageBytes;
    CopyAsync16(stage, weight + ahead * kChunkValues, true);
    CopyAsync16(stage + kPieceBytes, weight + ahead * kChunkValues + half_values, true);
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

  // All that the ring holds of the weights comes before the rows are there, some at a time.
  LetNextBegin();
  TUTTI_UNROLL
  for (int ahead = 0; ahead < kAhead; ++ahead) {
    fetch_weights(ahead, count);
    CopyCommit();
    if (ahead >= kStreamBurst<kStages>) CopyWait<kStreamBurst<kStages>>();
  }
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
    weight += kStages * kChunkValues;
    in += kStages * kPieceValues;
  }
  TUTTI_UNROLL
  for (int r = 0; r < kRowTiles; ++r) ScaleBack<kBf16>(args, leaf, r * kTileRows, sum[r]);
}

}  // namespace tutti::kernels::cuda
