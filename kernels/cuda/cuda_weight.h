// A packed weight on the device.
#pragma once

#include <memory>
#include <utility>

#include "kernels/cuda/cuda_buffer.h"
#include "kernels/cuda/cuda_codes.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/runtime.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels::cuda {

class CudaWeight : public Weight {
 public:
  // As Backend::Pack. `plain_rows`: 16-bit weights lie as cuBLASLt reads them (layout.h), in as
  // many bytes. REQUIRES: the runtime outlives the weight.
  static absl::StatusOr<std::unique_ptr<CudaWeight>> Pack(Runtime* runtime,
                                                          const WeightSource& source,
                                                          bool plain_rows = false);

  // As Backend::PackQuantised.
  static absl::StatusOr<std::unique_ptr<CudaWeight>> PackQuantised(Runtime* runtime,
                                                                   const QuantisedSource& source);

  // REQUIRES: this backend packed it
  static const CudaWeight& Of(const Weight& weight);
  // REQUIRES: and of no codes
  static const CudaWeight& OfNumbers(const Weight& weight);

  int64_t out_features() const override { return shape_.out_features; }
  int64_t in_features() const override { return shape_.in_features; }
  int64_t bytes() const override { return codes_ != nullptr ? codes_->bytes() : data_->bytes(); }

  // That of its elements, to which rows are rounded; of codes, that to which rows are.
  DType dtype() const { return shape_.dtype; }
  // Of codes those of the first section.
  const LeafMap& leaves() const { return leaves_; }
  // nullptr: its elements are numbers. Else they lie there, and nowhere else.
  const CudaCodes* codes() const { return codes_.get(); }
  // Whether rows for it can be packed by the kernels that make them.
  bool packs_rows() const {
    return dtype() != DType::kF32 && (codes_ == nullptr || codes_->in_order());
  }

  // 16-bit weights: tiles of kTileOut features. f32: features, padded.
  int64_t out_tiles() const { return (shape_.out_features + kTileOut - 1) / kTileOut; }
  int64_t padded_out() const {
    return (shape_.out_features + kPlainOutPad - 1) / kPlainOutPad * kPlainOutPad;
  }
  const void* data() const { return data_ == nullptr ? nullptr : data_->data(); }
  bool plain_rows() const { return plain_rows_; }

 private:
  CudaWeight(WeightShape shape, LeafMap leaves, bool plain_rows)
      : shape_(std::move(shape)), leaves_(leaves), plain_rows_(plain_rows) {}
  int64_t PackedBytes() const;
  absl::Status Fill(Runtime* runtime, const WeightSource& source);

  const WeightShape shape_;
  const LeafMap leaves_;
  const bool plain_rows_;
  std::unique_ptr<CudaBuffer> data_;
  std::unique_ptr<CudaCodes> codes_;
};

}  // namespace tutti::kernels::cuda
