// A packed weight on the device.
#pragma once

#include <memory>

#include "kernels/cuda/layout.h"
#include "kernels/cuda/runtime.h"
#include "kernels/shape_checks.h"

namespace tutti::kernels::cuda {

// Memory of the device, freed with its owner.
class CudaBuffer : public DeviceBuffer {
 public:
  // RESOURCE_EXHAUSTED with the bytes asked for and those free; INVALID_ARGUMENT for a negative
  // number.
  static absl::StatusOr<std::unique_ptr<CudaBuffer>> Make(Runtime* runtime, int64_t bytes);
  // Of Runtime::AllocateConstant.
  static absl::StatusOr<std::unique_ptr<CudaBuffer>> MakeConstant(Runtime* runtime, int64_t bytes);
  ~CudaBuffer() override;
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  CudaBuffer(Runtime* runtime, void* data, int64_t bytes)
      : runtime_(runtime), data_(data), bytes_(bytes) {}
  Runtime* const runtime_;
  void* const data_;
  const int64_t bytes_;
};

class CudaWeight : public Weight {
 public:
  // As Backend::Pack. `plain_rows`: 16-bit weights lie as cuBLASLt reads them (layout.h), in as
  // many bytes. REQUIRES: the runtime outlives the weight.
  static absl::StatusOr<std::unique_ptr<CudaWeight>> Pack(Runtime* runtime,
                                                          const WeightSource& source,
                                                          bool plain_rows = false);

  // REQUIRES: this backend packed it
  static const CudaWeight& Of(const Weight& weight);

  int64_t out_features() const override { return shape_.out_features; }
  int64_t in_features() const override { return shape_.in_features; }
  int64_t bytes() const override { return data_->bytes(); }

  DType dtype() const { return shape_.dtype; }
  const LeafMap& leaves() const { return leaves_; }
  // 16-bit weights: tiles of kTileOut features. f32: features, padded.
  int64_t out_tiles() const { return (shape_.out_features + kTileOut - 1) / kTileOut; }
  int64_t padded_out() const {
    return (shape_.out_features + kPlainOutPad - 1) / kPlainOutPad * kPlainOutPad;
  }
  const void* data() const { return data_->data(); }
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
};

}  // namespace tutti::kernels::cuda
