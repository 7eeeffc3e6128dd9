// Where the sums of AMX's tiles go: into a product's output, or into the tree of its leaves.
//
// To be included only by kernels_amx.cc.
#pragma once

#include <cstdint>

#include "kernels/cpu/inline.h"
#include "kernels/cpu/vector_math.h"

namespace tutti::kernels::cpu {
namespace {

// Where the sums of a product's leaves go: rows by columns of its output, and what is still open of
// the tree of leaves.
struct AmxSums {
  float* out;          // of the first row and column
  int64_t out_stride;  // floats
  int64_t rows;
  int64_t cols;      // of the sums: all of a tile's
  int64_t out_cols;  // that are the output's; may be more than cols
  bool around;       // past the caches, where they would only push out what is read again
  int64_t leaves;
  float* open;  // [levels of the tree + 1][rows][cols]: a leaf's own sums, then the open left sums
};

// Whether a leaf's tiles may be stored into the output: it is the only one, none of its columns is
// padding, and they go through the caches, as a tile's stores do.
TUTTI_INLINE bool AmxStoresOut(const AmxSums& sums) {
  return sums.leaves == 1 && sums.out_cols >= sums.cols && !sums.around;
}
// A leaf's sums are kept as they are where it is the left one of its neighbours.
TUTTI_INLINE float* AmxLeafSums(const AmxSums& sums, int64_t leaf) {
  return sums.leaves > 1 && leaf % 2 == 0 ? sums.open + sums.rows * sums.cols : sums.open;
}

// Adds a right leaf's sums to those left of it, as far as the tree goes: like counting in binary,
// leaf number `leaf` completes as many levels as it has trailing one bits. The last leaf's go to
// the output.
template <class S>
static void AmxAddLeaf(const AmxSums& sums, int64_t leaf) {
  const int64_t floats = sums.rows * sums.cols;
  const int64_t levels = __builtin_ctzll(static_cast<uint64_t>(leaf + 1));
  const bool last = leaf + 1 == sums.leaves;
  float* to = sums.open + (1 + levels) * floats;
  for (int64_t r = 0; r < sums.rows; ++r) {
    for (int64_t c = 0; c < sums.cols; c += 16) {
      const int64_t at = r * sums.cols + c;
      auto sum = S::Load(sums.open + at);
      for (int64_t level = 1; level <= levels; ++level) {
        sum = S::Add(S::Load(sums.open + level * floats + at), sum);
      }
      if (!last) {
        S::Store(to + at, sum);
      } else if (sums.around) {
        S::StoreAround(sums.out + r * sums.out_stride + c, sum);
      } else if (c < sums.out_cols) {
        StoreUpTo<S>(sums.out + r * sums.out_stride + c, sum, sums.out_cols - c);
      }
    }
  }
}

// After leaf `leaf` was stored to AmxLeafSums.
template <class S>
TUTTI_INLINE void AmxEndLeaf(const AmxSums& sums, int64_t leaf) {
  if (AmxStoresOut(sums) || (leaf % 2 == 0 && sums.leaves > 1)) return;
  AmxAddLeaf<S>(sums, leaf);
}

}  // namespace
}  // namespace tutti::kernels::cpu
