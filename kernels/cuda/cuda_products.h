// Products on a GPU: activation rows on their way into the tensor cores, and what comes out of
// them.
//
// Thread: the backend's.
#pragma once

#include "base/gpu_memory.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/device_memory.h"

namespace tutti::kernels::cuda {

class CudaProducts {
 public:
  // REQUIRES: the runtime outlives it.
  explicit CudaProducts(LaunchQueue* runtime) : runtime_(runtime) {}

  // Products with `weight` may follow: Reserve counts it.
  void Cover(const CudaWeight& weight);
  const gpu::ProductBounds& bounds() const { return bounds_; }  // of everything covered
  // As Backend::Reserve, of what products need.
  absl::Status Reserve(const gpu::WorkBytes& work);
  int64_t bytes() const;

  // Backend::MatMul of checked operands.
  void MatMul(const TensorView& in, const CudaWeight& w, const TensorView& out);

 private:
  void PlainMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out);
  void TensorMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out);

  LaunchQueue* const runtime_;
  WorkSpace packed_rows_{runtime_}, row_scales_{runtime_}, leaf_sums_{runtime_};
  gpu::ProductBounds bounds_;
};

}  // namespace tutti::kernels::cuda
