// Operators that only some models need: attention that sharpens with the position, mixtures of
// experts, and products whose rows are rounded. A backend without them serves the others.
//
// The rules of backend.h hold here too: row-independent, one fixed order for every sum.
#pragma once

#include <cstdint>
#include <span>

#include "base/check.h"
#include "kernels/tensor.h"

namespace tutti::kernels {

class Weight;

class FamilyOperators {
 public:
  virtual ~FamilyOperators() = default;

  // x[r, :] *= scale[r].   x [rows, cols] f32, scale [rows] on the host
  virtual void ScaleRows(TensorView x, std::span<const float> scale) = 0;

  // The `count` experts with the largest logits of each row (of equal ones the smaller index), in
  // ascending order, each with its share: exp(logit) over the sum of exp over all experts, or over
  // the chosen ones when `normalise`.
  //
  //   logits [rows, experts] f32      experts, shares [rows * count], row by row, on the host
  //
  // Shares of a row that holds NaN are NaN; the chosen are `count` different experts all the same.
  // REQUIRES: 1 <= count <= experts
  virtual void SelectExperts(TensorView logits, int64_t count, bool normalise,
                             std::span<int32_t> experts, std::span<float> shares) = 0;

  // out[i, :] = in[rows[i], :].   in, out f32, not aliasing
  virtual void GatherRows(TensorView in, std::span<const int32_t> rows, TensorView out) = 0;

  // out[r, :] = the sum of weights[r * n + j] * in[rows[r * n + j], :] over j = 0 .. n - 1, in that
  // order, n = rows.size() / out.rows.   in, out f32, not aliasing; n >= 1
  virtual void SumRows(TensorView in, std::span<const int32_t> rows, std::span<const float> weights,
                       TensorView out) = 0;

  // Backend::MatMul of a weight that rounds rows (kernels/quantised_source.h), of rows that are
  // parts of longer ones, whose largest magnitudes are `largest` [rows], on the host.
  // REQUIRES: the backend packs such weights
  virtual void MatMulRounded(TensorView in, std::span<const float> largest, const Weight& weight,
                             TensorView out) {
    CHECK(false) << "no products of rounded rows on this backend";
  }
};

}  // namespace tutti::kernels
