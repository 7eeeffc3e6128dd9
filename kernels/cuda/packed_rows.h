// Rows on their way into a product, put into their packed places by the kernels that make them.
#pragma once

#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/packed_target.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_math.h"

namespace tutti::kernels::cuda {

// Rounds `value`(k) of one row into its packed place, by all threads that share the row between
// them from `first` on, `step` apart.
template <class Fn>
TUTTI_DEVICE void PackBf16(const PackedTarget& to, int64_t row, int32_t first, int32_t step,
                           const Fn& value) {
  const int32_t chunks = Chunks(to.leaves);
  for (int32_t packed = first; packed < chunks * kChunkK; packed += step) {
    const int32_t k = SourceK(to.leaves, packed);
    to.rows[PackedRowIndex(row, packed, chunks, to.pieces)] = ToBf16(k < 0 ? 0 : value(k));
  }
}

// One leaf of a row, by a block of kThreads: `value` is asked for twice.
template <int kThreads, class Fn>
TUTTI_DEVICE void PackF16Leaf(const PackedTarget& to, int64_t row, int32_t leaf, const Fn& value) {
  const int32_t begin = to.leaves.begin[leaf], length = to.leaves.begin[leaf + 1] - begin;
  float largest = 0;
  for (int32_t k = ThreadIndex(); k < length; k += kThreads) {
    largest = LargestFinite(largest, value(begin + k));
  }
  largest = ReduceBlock<kThreads>(largest, Larger());
  const float scale = F16Scale(largest), inverse = 1 / scale;
  if (ThreadIndex() == 0) to.scale[ScaleIndex(row, leaf, to.leaves)] = scale;
  const int32_t chunks = Chunks(to.leaves);
  const int32_t first = to.leaves.chunk[leaf] * kChunkK;
  const int32_t padded = to.leaves.chunk[leaf + 1] * kChunkK - first;
  for (int32_t k = ThreadIndex(); k < padded; k += kThreads) {
    to.rows[PackedRowIndex(row, first + k, chunks, to.pieces)] =
        ToF16(k < length ? value(begin + k) * inverse : 0);
  }
}

// Four values of a row, packed k to k + 3, of bf16.   REQUIRES: k % 4 == 0
TUTTI_DEVICE void StoreFours(const PackedTarget& to, int64_t row, int32_t packed_k, int32_t chunks,
                             const Fours& x) {
  const TwoWords words = {{Bf16Pair(x.v[0], x.v[1]), Bf16Pair(x.v[2], x.v[3])}};
  if (to.wide == 0 && to.pieces == 0) {
    *reinterpret_cast<TwoWords*>(to.rows + ActivationIndex(row, packed_k, chunks)) = words;
    return;
  }
  // Two words of a lane.
  auto* const out = reinterpret_cast<uint32_t*>(
      to.rows + (to.wide != 0 ? WideActivationIndex(row, packed_k, chunks)
                              : TogetherActivationIndex(row, packed_k, to.pieces)));
  out[0] = words.w[0];
  out[kWarp] = words.w[1];
}

// Where the k of a chunk come from. A loop that no compiler takes apart: before a kernel waits for
// earlier ones it costs nothing, and arithmetic without branches would be put behind the wait.
struct ChunkPlace {
  int32_t k;     // of the checkpoint: the chunk's first
  int32_t left;  // k of the leaf from there on
};
TUTTI_DEVICE ChunkPlace PlaceOf(const LeafMap& map, int32_t chunk) {
  int32_t first = 0, begin = 0, end = map.begin[1];
  TUTTI_KEEP_LOOP
  for (int32_t leaf = 1; leaf < map.leaves && chunk >= map.chunk[leaf]; ++leaf) {
    first = map.chunk[leaf];
    begin = map.begin[leaf];
    end = map.begin[leaf + 1];
  }
  const int32_t k = begin + (chunk - first) * kChunkK;
  return {k, end - k};
}

// Whether memory of rows can be read by 16 bytes.
inline bool HasFours(const void* data, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(Fours) == 0 && stride % 4 == 0;
}
inline bool HasFours(const LeafMap& map) {
  for (int32_t leaf = 0; leaf <= map.leaves; ++leaf) {
    if (map.begin[leaf] % 4 != 0) return false;
  }
  return true;
}

}  // namespace tutti::kernels::cuda
