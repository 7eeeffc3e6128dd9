// Products of few and some rows for compute capability 9.0, which only wait for their weights: a
// warp has a deep ring of them on its way by bulk copies, from before the kernels ahead have ended,
// and warpgroups multiply 16 features of each of their warps by all rows, by wgmma. The bits are
// those of product.h wherever ProbeWgmma has found that the two instructions give the same.
#pragma once

#include <algorithm>

#include "kernels/cuda/product.h"

namespace tutti::kernels::cuda {

// Pieces of 8 rows.
inline int32_t RowPieces(int64_t rows) {
  return static_cast<int32_t>((rows + kPieceRows - 1) / kPieceRows);
}

// `in` by TogetherActivationIndex of RowPieces(rows); the contents of rows that pad the last piece
// are never used.   REQUIRES: 0 < rows <= kLeafSumRows; not plain rows; of several leaves more than
// kStreamRows
//
//   multiprocessors  of the device: as many blocks at most, twice as many where rows are few
void LaunchRingProduct(DType type, const ProductArgs& args, int32_t multiprocessors,
                       Launcher* launcher);

// How a product is shared out: an item is `tiles` tiles of 16 features, of one leaf. A block goes
// through one item after the other.
struct RingShares {
  int32_t tiles = 1;
  int32_t items = 1;
  int32_t blocks = 1;
};
// Such that the busiest multiprocessor is through soonest. A tile's weights come from memory, those
// rows of an item from the second-level cache, at twice the speed or more.
inline RingShares ShareOut(const ProductArgs& args, int32_t multiprocessors, int32_t tiles_max) {
  RingShares best;
  int64_t least = -1;
  for (int32_t tiles = 1; tiles <= tiles_max; ++tiles) {
    const int32_t items = (args.out_tiles + tiles - 1) / tiles * args.leaves.leaves;
    const int64_t rounds = (items + multiprocessors - 1) / multiprocessors;
    // In quarters of a tile's bytes of a chunk; 8 rows are half of a tile.
    const int64_t cost = rounds * (4 * tiles + RowPieces(args.rows));
    if (least >= 0 && cost > least) continue;
    least = cost;
    best = {.tiles = tiles, .items = items, .blocks = std::min(items, multiprocessors)};
  }
  return best;
}

}  // namespace tutti::kernels::cuda
