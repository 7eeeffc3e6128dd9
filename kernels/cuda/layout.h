// Where every number of a packed weight, of packed activations and of the KV cache lies, and in
// which order the leaves of a product are added. Plain functions, the same on the device and in
// tests.
//
// Weights and activations of 16 bits lie in pieces of 8 rows by 32 k (512 bytes, row by row). Lane
// 4 g + t of a warp reads the 16 bytes at lane * 16 of a piece: row g, k 8 t to 8 t + 7. These are
// its share of two tensor-core instructions, in an order of k within the chunk that is the same for
// both operands:
//
//   instruction 0   k slots 2t, 2t+1 are 8t, 8t+1    slots 2t+8, 2t+9 are 8t+2, 8t+3
//   instruction 1   k slots 2t, 2t+1 are 8t+4, 8t+5  slots 2t+8, 2t+9 are 8t+6, 8t+7
#pragma once

#include <cstdint>

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/limits.h"

namespace tutti::kernels::cuda {

inline constexpr int kPieceRows = 8;
inline constexpr int kPieceValues = kPieceRows * kChunkK;

// Leaves of a product in the packed k: each is padded to whole chunks.
struct LeafMap {
  int32_t leaves = 1;
  int32_t begin[kLeavesMax + 1] = {};  // first k of the leaf in the checkpoint; [leaves]: all
  int32_t chunk[kLeavesMax + 1] = {};  // its first chunk; [leaves]: all
};

TUTTI_HOST_DEVICE int32_t Chunks(const LeafMap& map) { return map.chunk[map.leaves]; }

// Packed k of the checkpoint's k.  REQUIRES: 0 <= k < begin[leaves]
TUTTI_HOST_DEVICE int32_t PackedK(const LeafMap& map, int32_t k) {
  int32_t leaf = 0;
  while (k >= map.begin[leaf + 1]) ++leaf;
  return map.chunk[leaf] * kChunkK + (k - map.begin[leaf]);
}

// The checkpoint's k of a packed k; -1 for padding.
TUTTI_HOST_DEVICE int32_t SourceK(const LeafMap& map, int32_t packed) {
  int32_t leaf = 0;
  while (packed >= map.chunk[leaf + 1] * kChunkK) ++leaf;
  const int32_t k = map.begin[leaf] + (packed - map.chunk[leaf] * kChunkK);
  return k < map.begin[leaf + 1] ? k : -1;
}

// 16-bit weights: [out / 16][chunk][2][8 rows][32 k].
TUTTI_HOST_DEVICE int64_t WeightIndex(int64_t out, int32_t packed_k, int32_t chunks) {
  const int64_t piece =
      ((out / kTileOut) * chunks + packed_k / kChunkK) * 2 + out % kTileOut / kPieceRows;
  return piece * kPieceValues + (out % kPieceRows) * kChunkK + packed_k % kChunkK;
}

// The same in the class that multiplies many rows by cuBLASLt, which reads plain matrices:
// [out, padded to kTileOut][packed k]. A lane's 16 bytes of a piece are the same; only the rows of
// the piece are apart.
TUTTI_HOST_DEVICE int64_t PlainRowIndex(int64_t row, int32_t packed_k, int32_t chunks) {
  return row * chunks * kChunkK + packed_k;
}
TUTTI_HOST_DEVICE int64_t WeightIndexIn(bool plain_rows, int64_t out, int32_t packed_k,
                                        int32_t chunks) {
  return plain_rows ? PlainRowIndex(out, packed_k, chunks) : WeightIndex(out, packed_k, chunks);
}

// f32 weights: [k][out, padded], so that neighbouring threads read neighbouring outputs.
inline constexpr auto kPlainOutPad = kGpuPlainOutPad;
TUTTI_HOST_DEVICE int64_t PlainWeightIndex(int64_t out, int64_t k, int64_t padded_out) {
  return k * padded_out + out;
}

// Packed activations: [rows / 8][chunk][8 rows][32 k].
TUTTI_HOST_DEVICE int64_t ActivationIndex(int64_t row, int32_t packed_k, int32_t chunks) {
  return ((row / kPieceRows) * chunks + packed_k / kChunkK) * kPieceValues +
         (row % kPieceRows) * kChunkK + packed_k % kChunkK;
}

// Packed activations of products by wgmma (product_hopper.h): [rows / 64][chunk][64 / 8][piece]. A
// piece has the words of the one above in another order: word w of lane l at 128 w + 4 l bytes. So
// words w of its 8 rows are a core matrix, 8 rows by 16 bytes, and words 0 and 1 are k slots 0 to 7
// and 8 to 15 of instruction 0, words 2 and 3 those of instruction 1.
inline constexpr int kCoreMatrixBytes = 128;
TUTTI_HOST_DEVICE int32_t InCorePiece(int64_t row, int32_t packed_k) {
  const int32_t k = packed_k % kChunkK;
  const auto lane = static_cast<int32_t>(row % kPieceRows) * 4 + k / 8;
  return (k % 8 / 2 * kWarp + lane) * 2 + k % 2;
}
TUTTI_HOST_DEVICE int64_t WideActivationIndex(int64_t row, int32_t packed_k, int32_t chunks) {
  const int64_t block = (row / kWideRows) * chunks + packed_k / kChunkK;
  const int64_t piece = block * (kWideRows / kPieceRows) + row % kWideRows / kPieceRows;
  return piece * kPieceValues + InCorePiece(row, packed_k);
}

// Packed activations of products by wgmma of few and some rows (product_ring.h): [chunk][8 rows],
// in pieces as above, so that all rows of a chunk are one bulk copy.
//   pieces: of 8 rows, that all rows come to
TUTTI_HOST_DEVICE int64_t TogetherActivationIndex(int64_t row, int32_t packed_k, int32_t pieces) {
  const int64_t piece = int64_t{1} * (packed_k / kChunkK) * pieces + row / kPieceRows;
  return piece * kPieceValues + InCorePiece(row, packed_k);
}
// Packed activations of up to kLeafSumRows rows.
//   pieces: 0: by ActivationIndex; else by TogetherActivationIndex
TUTTI_HOST_DEVICE int64_t PackedRowIndex(int64_t row, int32_t packed_k, int32_t chunks,
                                         int32_t pieces) {
  return pieces == 0 ? ActivationIndex(row, packed_k, chunks)
                     : TogetherActivationIndex(row, packed_k, pieces);
}
// From the first number of a chunk to the one `d` behind it, of the same row.
TUTTI_HOST_DEVICE int64_t PackedRowOffset(int32_t d, int32_t pieces) {
  const int64_t chunk = d / kChunkK;
  return pieces == 0 ? chunk * kPieceValues + d % kChunkK
                     : chunk * pieces * kPieceValues + InCorePiece(0, d);
}

// Scales of packed activations: [row][leaf].
TUTTI_HOST_DEVICE int64_t ScaleIndex(int64_t row, int32_t leaf, const LeafMap& map) {
  return row * map.leaves + leaf;
}

// Adds the sums of leaves, given in order, in a binary tree of neighbours: `leaf` just ended with
// `sum`. After the last leaf, `sum` is the total. Pending sums are wherever `pending` keeps them:
// it has float Load(level, i) and void Store(level, i, float).
template <int kCount, int kLevels, class Pending>
TUTTI_HOST_DEVICE void AddLeafTo(int leaf, float (&sum)[kCount], Pending&& pending) {
  bool stored = false;
  TUTTI_UNROLL
  for (int level = 0; level < kLevels; ++level) {
    if (stored) continue;
    if ((leaf >> level) % 2 == 1) {
      TUTTI_UNROLL
      for (int i = 0; i < kCount; ++i) sum[i] = pending.Load(level, i) + sum[i];
    } else {
      TUTTI_UNROLL
      for (int i = 0; i < kCount; ++i) pending.Store(level, i, sum[i]);
      stored = true;
    }
  }
}

// As AddLeafTo, with pending sums in an array, which a kernel has in registers.
template <int kCount, int kLevels>
struct PendingArray {
  float (&values)[kLevels][kCount];
  TUTTI_HOST_DEVICE float Load(int level, int i) const { return values[level][i]; }
  TUTTI_HOST_DEVICE void Store(int level, int i, float sum) { values[level][i] = sum; }
};
template <int kCount, int kLevels>
TUTTI_HOST_DEVICE void AddLeaf(int leaf, float (&sum)[kCount], float (&pending)[kLevels][kCount]) {
  AddLeafTo<kCount, kLevels>(leaf, sum, PendingArray<kCount, kLevels>{pending});
}

// The KV cache of a layer: [block][kv head][unit of 16 slots][key, value][16 * dim].
//
// 16-bit caches pad the head to one of 64, 96, 128, 256 and keep the keys of a unit as [dim /
// 32][16 slots][32 dims] and its values as [dim][16 slots], as the lanes of a warp read them. f32
// caches keep both as [slot][dim].
struct KvLayout {
  int32_t block_size = 16;
  int32_t kv_heads = 1;
  int32_t dim = 0;  // padded
  bool plain = false;
  uint8_t gap[3] = {};
};

// First element of the unit that holds `slot` of `block`.
TUTTI_HOST_DEVICE int64_t KvUnitIndex(const KvLayout& layout, int64_t block, int32_t slot,
                                      int32_t head, bool value) {
  const int64_t units = layout.block_size / kKvUnit;
  const int64_t unit = (block * layout.kv_heads + head) * units + slot / kKvUnit;
  return (unit * 2 + (value ? 1 : 0)) * kKvUnit * layout.dim;
}

TUTTI_HOST_DEVICE int32_t KeyInUnit(const KvLayout& layout, int32_t slot, int32_t d) {
  if (layout.plain) return slot * layout.dim + d;
  return d / 32 * (kKvUnit * 32) + slot * 32 + d % 32;
}
TUTTI_HOST_DEVICE int32_t ValueInUnit(const KvLayout& layout, int32_t slot, int32_t d) {
  return layout.plain ? slot * layout.dim + d : d * kKvUnit + slot;
}

// Slot, within its unit, whose key stands in column `column` (0 to 7) of the scores of half 0 or 1:
// chosen so that a lane's scores of both halves are four consecutive slots, 4 t to 4 t + 3.
TUTTI_HOST_DEVICE int32_t ScoreSlot(int32_t half, int32_t column) {
  return 4 * (column / 2) + 2 * half + column % 2;
}

}  // namespace tutti::kernels::cuda
