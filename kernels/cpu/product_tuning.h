// The choices of one product that change its time and no bit. Plain data: the vector kernels
// include this.
#pragma once

#include <cstdint>

#include "kernels/limits.h"

namespace tutti::kernels::cpu {

// Values of ProductTuning::ahead_bytes that are no distance.
inline constexpr int64_t kAheadOff = 0;     // fetches nothing: the hardware does it alone
inline constexpr int64_t kAheadPiece = -1;  // fetches the next piece while this one is multiplied

struct ProductTuning {
  // Rows that share one pass over a group of weights: a multiple of kTileRows. Their accumulators
  // should stay in L2.
  int64_t row_block = kRowBlock;
  // Pairs of k that a tile walks before its accumulators go back to memory, where several tiles
  // share them: 256 bytes of bf16 weights each, which should stay in L1 or L2.
  int64_t piece_pairs = kPiecePairs;
  // Where it fetches. A distance is for products that read a group once, from its first byte to its
  // last (Streams in matmul_kernels.h); others know kAheadOff and kAheadPiece alone.
  int64_t ahead_bytes = kStreamAheadBytes;
  // Groups that a product of up to Simd::kTurnRows rows reads at once, kStreamTurnBytes of each in
  // turn: at most kStreamsMax.
  int64_t streams = kStreams;
  // Whether bf16 is multiplied by f32 multiply-adds with the bits of the dot instruction, where the
  // kernels have both (KernelTable::multiplies_both_ways).
  bool by_f32 = false;
};

}  // namespace tutti::kernels::cpu
