// Rows and weights as AMX's tiles.
//
// Packed input: for each tile of 16 rows (the last may have fewer), for each leaf, for each block
// of 32 k, the tile's rows of 32 bf16, filled up with zeros behind the leaf's end.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/matmul_kernels.h"

namespace tutti::kernels::cpu {
namespace {

inline constexpr int64_t kAmxGroupBytes = kMatMulGroupUnits * kAmxRowBytes;  // of a pair of k
inline constexpr int64_t kAmxBlockBytes = kAmxBlockPairs * kAmxGroupBytes;   // of a group's block

TUTTI_INLINE int64_t AmxBlocks(int64_t pairs) {
  return (pairs + kAmxBlockPairs - 1) / kAmxBlockPairs;
}
TUTTI_INLINE int64_t AmxBlocksOfLeaves(const MatMulJob& job, int64_t leaves) {
  int64_t blocks = 0;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    blocks += AmxBlocks(job.leaf_pair_begin[leaf + 1] - job.leaf_pair_begin[leaf]);
  }
  return blocks;
}

// Rounds 32 elements of a row to bf16, the first `count` of them where those are fewer.
template <class S>
TUTTI_INLINE void AmxPackPart(const float* in, int64_t count, uint8_t* out) {
  if (count >= 32) {
    S::StoreBf16Pair(out, S::Load(in), S::Load(in + 16));
  } else {
    const auto low = S::LoadFirst(in, count);
    const auto high = count > 16 ? S::LoadFirst(in + 16, count - 16) : S::Zero();
    S::StoreBf16Pair(out, low, high);
  }
}

// Tiles of rows [tile_begin, tile_end).
template <class S>
static void AmxPackTiles(const MatMulJob& job, int64_t tile_begin, int64_t tile_end) {
  const int64_t total = AmxBlocksOfLeaves(job, job.leaves);
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const int64_t first = tile * kAmxRows;
    const int64_t rows = job.rows - first < kAmxRows ? job.rows - first : kAmxRows;
    uint8_t* out = static_cast<uint8_t*>(job.packed_in) + first * total * kAmxRowBytes;
    for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
      const float* in = job.in + first * job.in_stride;
      for (int64_t k = job.leaf_begin[leaf]; k < job.leaf_begin[leaf + 1]; k += 32) {
        for (int64_t r = 0; r < rows; ++r, out += kAmxRowBytes) {
          AmxPackPart<S>(in + r * job.in_stride + k, job.leaf_begin[leaf + 1] - k, out);
        }
      }
    }
  }
}

// One row of the product, whose elements are `values`.
template <class S>
static void AmxPackRow(const MatMulJob& job, int64_t row, const float* values) {
  const int64_t first = row / kAmxRows * kAmxRows;
  const int64_t rows = job.rows - first < kAmxRows ? job.rows - first : kAmxRows;
  const int64_t total = AmxBlocksOfLeaves(job, job.leaves);
  uint8_t* out = static_cast<uint8_t*>(job.packed_in) + first * total * kAmxRowBytes +
                 (row - first) * kAmxRowBytes;
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    const int64_t end = job.leaf_begin[leaf + 1];
    for (int64_t k = job.leaf_begin[leaf]; k < end; k += 32, out += rows * kAmxRowBytes) {
      AmxPackPart<S>(values + k, end - k, out);
    }
  }
}

// The units of a leaf's last block, filled up with zeros: `units` tiles one behind the other.
TUTTI_INLINE void AmxFillUp(const uint8_t* weights, int64_t pairs, int64_t units, uint8_t* tiles) {
  std::memset(tiles, 0, static_cast<size_t>(units * kAmxTileBytes));
  for (int64_t pair = 0; pair < pairs; ++pair) {
    for (int64_t unit = 0; unit < units; ++unit) {
      std::memcpy(tiles + unit * kAmxTileBytes + pair * kAmxRowBytes,
                  weights + pair * kAmxGroupBytes + unit * kAmxRowBytes, kAmxRowBytes);
    }
  }
}

// Two units of a group as tiles, one behind the other: [leaf][block][2] tiles, a leaf's last block
// filled up with zeros. A tile of the group itself takes longer to load, as its lines lie apart.
static inline void AmxPanel(const MatMulJob& job, const uint8_t* weights, uint8_t* panel) {
  for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
    for (int64_t pair = job.leaf_pair_begin[leaf]; pair < job.leaf_pair_begin[leaf + 1];
         pair += kAmxBlockPairs) {
      const int64_t left = job.leaf_pair_begin[leaf + 1] - pair;
      if (left < kAmxBlockPairs) {
        AmxFillUp(weights + pair * kAmxGroupBytes, left, 2, panel);
      } else {
        for (int64_t i = 0; i < kAmxBlockPairs; ++i) {
          const uint8_t* from = weights + (pair + i) * kAmxGroupBytes;
          std::memcpy(panel + i * kAmxRowBytes, from, kAmxRowBytes);
          std::memcpy(panel + kAmxTileBytes + i * kAmxRowBytes, from + kAmxRowBytes, kAmxRowBytes);
        }
      }
      panel += 2 * kAmxTileBytes;
    }
  }
}

}  // namespace
}  // namespace tutti::kernels::cpu
