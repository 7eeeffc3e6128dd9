// Products with quantised weights, element by element: their definition as plain code, to which
// every way of computing them is compared bit by bit (kernels/quantised_source.h).
//
// Thread: any. MatMul changes MXCSR while it runs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/quantised_source.h"

namespace tutti::kernels {

// The order in which the elements of a strip are added.
enum class SumOrder : uint8_t {
  kF32,    // class cpu-f32: one chain of fused multiply-adds over f32
  kDot,    // cpu-bf16dot: one chain over bf16, of each pair the odd one first, which flushes
  kBlock,  // cpu-bf16block: BlockSum
};
// That of a class of the cpu backend, for a model that computes in `computed_in`.
SumOrder SumOrderOf(std::string_view numerics_class, DType computed_in);

class ReferenceQuantised : public Weight {
 public:
  // Errors: those of Backend::PackQuantised
  static absl::StatusOr<std::unique_ptr<ReferenceQuantised>> Make(const QuantisedSource& source);

  int64_t out_features() const override { return out_; }
  int64_t in_features() const override { return in_; }
  int64_t bytes() const override;
  bool rounds_rows() const override { return rounds_rows_; }
  DType computed_in() const { return computed_in_; }

  // out = in * weight^T, by the definition; without an order in f64. `largest`: see
  // FamilyOperators::MatMulRounded; empty: rows are whole.
  void MatMul(TensorView in, TensorView out, std::optional<SumOrder> order,
              std::span<const float> largest = {}) const;

 private:
  struct Section {
    int64_t end = 0;  // its last row, and one
    Strips strips;
  };

  ReferenceQuantised() = default;
  float Leaf(const float* row, const Section& section, int64_t n, int64_t leaf,
             std::optional<SumOrder> order) const;
  // Of integers, of which each stands for `row_scale`.
  float IntegerLeaf(const int16_t* row, float row_scale, const Section& section, int64_t n,
                    int64_t leaf) const;
  template <class LeafSum>
  float Element(const Section& section, const LeafSum& leaf_sum) const;
  void AddPart(const QuantisedSource& source, const QuantisedPart& part);

  int64_t out_ = 0, in_ = 0, groups_ = 0;
  DType computed_in_ = DType::kBF16;
  bool rounds_rows_ = false;
  std::vector<Section> sections_;
  std::vector<float> values_;  // [out, in], less their zero points, by inner scales
  std::vector<float> scales_;  // [out, groups]
};

}  // namespace tutti::kernels
