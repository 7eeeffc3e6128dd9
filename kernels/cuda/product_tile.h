// Common to the tensor-core products: how a lane's share of a piece is multiplied, scaled and
// stored.
#pragma once

#include "kernels/cuda/number_formats.h"
#include "kernels/cuda/product_args.h"

namespace tutti::kernels::cuda {

inline constexpr int kPieceBytes = kPieceValues * 2;

// One lane's share of a 16 x 32 tile of weights and of an 8 x 32 tile of activations.
template <bool kBf16>
TUTTI_DEVICE void MultiplyChunk(float (&sum)[4], const Words& upper, const Words& lower,
                                const Words& rows) {
  Mma<kBf16>(sum, {upper.w[0], lower.w[0], upper.w[1], lower.w[1]}, {rows.w[0], rows.w[1]});
  Mma<kBf16>(sum, {upper.w[2], lower.w[2], upper.w[3], lower.w[3]}, {rows.w[2], rows.w[3]});
}

// Writes one instruction's outputs: `out` of 16 features from `feature`, 8 rows from `row`.
TUTTI_DEVICE void StoreTile(const float (&sum)[4], float* out, int64_t stride, int32_t row,
                            int32_t rows, int32_t feature, int32_t features) {
  const int g = Lane() / 4, t = Lane() % 4;
  TUTTI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int32_t r = row + 2 * t + i % 2, n = feature + g + 8 * (i / 2);
    if (r < rows && n < features) out[r * stride + n] = sum[i];
  }
}

// Multiplies one instruction's outputs, the sums of a leaf, by the scales of their rows.
template <bool kBf16>
TUTTI_DEVICE void ScaleBack(const ProductArgs& args, int leaf, int32_t row, float (&sum)[4]) {
  if constexpr (!kBf16) {
    TUTTI_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int32_t r = row + 2 * (Lane() % 4) + i;
      const float scale = r < args.rows ? args.scale[ScaleIndex(r, leaf, args.leaves)] : 1;
      sum[i] *= scale;
      sum[2 + i] *= scale;
    }
  }
}

}  // namespace tutti::kernels::cuda
