// The time of the backend's own product, on weights made for it: the work of a step, without a
// model.
//
// Thread: the one that owns the backend.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"

namespace tutti::worker {

class ProductProbe {
 public:
  struct Shape {
    DType dtype = DType::kBF16;
    int64_t in_features = 0;
    int64_t out_features = 0;
    int64_t weight_bytes = 0;  // of all weights together, at least
    int64_t rows_max = 0;
  };
  // RESOURCE_EXHAUSTED: the memory cannot be had.
  static absl::StatusOr<std::unique_ptr<ProductProbe>> Create(kernels::Backend* backend,
                                                              const Shape& shape);

  int64_t weights() const { return static_cast<int64_t>(weights_.size()); }
  int64_t bytes() const;  // resident, of all weights

  // Seconds in which rows are multiplied with `count` weights: those after the last call's, going
  // round, so that caches which hold less than all of them hold none of these.
  // REQUIRES: 0 < rows <= rows_max, count > 0
  double Seconds(int64_t rows, int64_t count);

 private:
  ProductProbe(kernels::Backend* backend, const Shape& shape) : backend_(backend), shape_(shape) {}
  absl::Status Prepare();
  kernels::TensorView View(const kernels::DeviceBuffer& buffer, kernels::Device device,
                           int64_t rows, int64_t cols) const;

  kernels::Backend* const backend_;
  const Shape shape_;
  std::vector<std::unique_ptr<kernels::Weight>> weights_;
  std::unique_ptr<kernels::DeviceBuffer> in_;
  std::unique_ptr<kernels::DeviceBuffer> out_;
  std::unique_ptr<kernels::DeviceBuffer> host_;
  size_t next_ = 0;
};

}  // namespace tutti::worker
