// Lays rows of f32 out the way the tiles read them: for each pair of k, each row's pair, rows of a
// tile side by side.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/formats.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/tiles.h"

namespace tutti::kernels::cpu {

// Columns [0, count) of `rows` rows into out[pair][row][2]; an odd count is padded with a zero.
TUTTI_INLINE void InterleaveF32(const float* const* in, int64_t rows, int64_t count, float* out) {
  if (rows == 1) {
    std::memcpy(out, in[0], static_cast<size_t>(count) * sizeof(float));
    if (count % 2 != 0) out[count] = 0;
    return;
  }
  for (int64_t k = 0; k + 1 < count; k += 2) {
    for (int64_t r = 0; r < rows; ++r, out += 2) std::memcpy(out, in[r] + k, 2 * sizeof(float));
  }
  if (count % 2 != 0) {
    for (int64_t r = 0; r < rows; ++r) {
      *out++ = in[r][count - 1];
      *out++ = 0;
    }
  }
}

// The same rounded to bf16, as f32; kFlush: with denormals taken as zero, also those that would be
// rounded up to a normal number.
template <class S, bool kFlush>
TUTTI_INLINE void InterleaveRounded(const float* const* in, int64_t rows, int64_t count,
                                    float* out) {
  constexpr int64_t kBatch = 128;
  alignas(64) float rounded[kTileRows][kBatch];
  const float* batch_in[kTileRows];
  for (int64_t begin = 0; begin < count; begin += kBatch) {
    const int64_t batch = count - begin < kBatch ? count - begin : kBatch;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < batch; k += 16) {
        typename S::F x = S::LoadFirst(in[r] + begin + k, batch - k);
        if constexpr (kFlush) x = S::FlushDenormals(x);
        S::Store(rounded[r] + k, S::RoundToBf16(x));
      }
      batch_in[r] = rounded[r];
    }
    InterleaveF32(batch_in, rows, batch, out);
    out += batch * rows;  // a batch that is not the last is even
  }
}

// The same rounded to bf16, a pair to a word: out[pair][row].
template <class S>
TUTTI_INLINE void InterleaveBf16(const float* const* in, int64_t rows, int64_t count,
                                 uint32_t* out) {
  constexpr int64_t kBatch = 128;
  alignas(64) uint16_t rounded[kTileRows][kBatch];
  for (int64_t begin = 0; begin < count; begin += kBatch) {
    const int64_t batch = count - begin < kBatch ? count - begin : kBatch;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < batch; k += 16) {
        S::StoreBf16(rounded[r] + k, S::LoadFirst(in[r] + begin + k, batch - k));
      }
    }
    for (int64_t k = 0; k < batch; k += 2) {
      for (int64_t r = 0; r < rows; ++r) std::memcpy(out++, rounded[r] + k, sizeof(uint32_t));
    }
  }
}

template <class S, class LoadUnit>
TUTTI_INLINE void Interleave(FmaFormat<S, LoadUnit>, const float* const* in, int64_t rows,
                             int64_t count, float* out) {
  InterleaveF32(in, rows, count, out);
}
template <class S>
TUTTI_INLINE void Interleave(DotFormat<S>, const float* const* in, int64_t rows, int64_t count,
                             uint32_t* out) {
  InterleaveBf16<S>(in, rows, count, out);
}
template <class S>
TUTTI_INLINE void Interleave(BlockFormat<S>, const float* const* in, int64_t rows, int64_t count,
                             float* out) {
  InterleaveRounded<S, true>(in, rows, count, out);
}
template <class S>
TUTTI_INLINE void Interleave(FlushedFormat<S>, const float* const* in, int64_t rows, int64_t count,
                             float* out) {
  InterleaveRounded<S, false>(in, rows, count, out);
}

template <class Format>
static void PackTiles(const MatMulJob& job, int64_t tile_begin, int64_t tile_end) {
  using A = typename Format::A;
  const int64_t total = job.leaf_pair_begin[job.leaves];
  const int64_t row_block = job.tuning.row_block;
  const int64_t block_tiles = row_block / kTileRows;
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const RowBlock block = BlockAt(tile / block_tiles * row_block, job.rows, row_block);
    const RowTile t = TileOf(block, tile % block_tiles);
    const int64_t first = block.begin + t.begin;
    A* out = static_cast<A*>(job.packed_in) + first * total * Format::kPerPair;
    for (int64_t leaf = 0; leaf < job.leaves; ++leaf) {
      const float* in[kTileRows];
      for (int64_t r = 0; r < t.rows; ++r) {
        in[r] = job.in + (first + r) * job.in_stride + job.leaf_begin[leaf];
      }
      const int64_t pairs = job.leaf_pair_begin[leaf + 1] - job.leaf_pair_begin[leaf];
      const int64_t count = job.leaf_begin[leaf + 1] - job.leaf_begin[leaf];
      Interleave(Format(), in, t.rows, count, out);
      // Behind a strip that does not fill its pairs.
      A* const end = out + pairs * t.rows * Format::kPerPair;
      for (A* at = out + (count + 1) / 2 * t.rows * Format::kPerPair; at < end; ++at) *at = 0;
      out = end;
    }
  }
}

}  // namespace tutti::kernels::cpu
