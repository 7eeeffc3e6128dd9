// Products of many rows by wgmma, for compute capability 9.0 (docs/decisions/0023). The bits are
// those of product.h wherever ProbeWgmma has found that the two instructions give the same.
#pragma once

#include <algorithm>

#include "kernels/cuda/product.h"

namespace tutti::kernels::cuda {

// `in` by WideActivationIndex; the contents of rows that pad the last kWideRows are never used.
// leaf_sums: not used.   REQUIRES: rows > 0
//
//   multiprocessors  of the device: the largest number of blocks, each for one output tile after
//                    the other
void LaunchWideProduct(DType type, const ProductArgs& args, int32_t multiprocessors,
                       Launcher* launcher);

// Output tiles in the order in which they are begun. Those under way at a time share rows and
// weights in the L2 cache: within a group of kWideGroupRows rows, all rows of a tile of features
// come before the next features.
struct WideTile {
  int32_t row_block;
  int32_t out_block;
};
//   group: blocks of rows of a group
TUTTI_HOST_DEVICE WideTile WideTileAt(int32_t index, int32_t row_blocks, int32_t out_blocks,
                                      int32_t group) {
  const int32_t of_group = group * out_blocks;
  const int32_t first = index / of_group * group;
  const int32_t rows = row_blocks - first < group ? row_blocks - first : group;
  const int32_t in_group = index % of_group;
  return {first + in_group % rows, in_group / rows};
}

}  // namespace tutti::kernels::cuda
