// A quantised weight in the layout of quantised_layout.h.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/quantised_layout.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/quantised_source.h"

namespace tutti::kernels::cpu {

// Rows of a weight whose inputs are divided alike.
struct QuantisedSection {
  int32_t number = 0;  // QuantisedPart::section
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_byte = 0;
  std::vector<int32_t> order;        // inputs as they are packed, -1: a zero; empty: as they come
  std::vector<int32_t> strip_group;  // [strips]
  std::vector<int64_t> strip_begin;  // [strips + 1], in inputs as they are packed
  std::vector<int64_t> pair_begin;   // [strips + 1], filled up
  std::vector<int64_t> strip_at;     // [strips + 1]: bytes within a group
  std::vector<int64_t> leaf_strip;   // [leaves + 1]
  int64_t groups() const { return (rows + kGroupColumns - 1) / kGroupColumns; }
  int64_t strips() const { return static_cast<int64_t>(strip_group.size()); }
  int64_t leaves() const { return static_cast<int64_t>(leaf_strip.size()) - 1; }
  int64_t bytes() const { return groups() * strip_at.back(); }
};

class QuantisedWeight : public Weight {
 public:
  // See Backend::PackQuantised.
  static absl::StatusOr<std::unique_ptr<Weight>> Pack(const QuantisedSource& source,
                                                      ThreadPool* pool);

  int64_t out_features() const override { return out_; }
  int64_t in_features() const override { return in_; }
  int64_t bytes() const override { return data_->bytes(); }

  const std::vector<QuantisedSection>& sections() const { return sections_; }
  bool rounds_rows() const override { return rounds_rows_; }
  // A section's product, but for its rows, and where they and the results are. Its type: f32 or
  // bf16, as the model computes.
  QuantisedJob JobOf(const QuantisedSection& section) const;

 private:
  QuantisedWeight() = default;

  int64_t out_ = 0, in_ = 0;
  CodeKind kind_ = CodeKind::kInt4;
  DType scale_type_ = DType::kF32;
  DType computed_in_ = DType::kBF16;
  bool has_zeros_ = false;
  bool rounds_rows_ = false;
  std::vector<QuantisedSection> sections_;
  std::unique_ptr<DeviceBuffer> data_;
};

}  // namespace tutti::kernels::cpu
