// Products on a GPU: activation rows on their way into the tensor cores, and their results.
//
// Thread: the backend's.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/joined.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/wide_products.h"
#include "kernels/gpu_memory.h"
#include "kernels/joined_operators.h"

namespace tutti::kernels::cuda {

class CudaProducts {
 public:
  // REQUIRES: the runtime outlives it.
  CudaProducts(LaunchQueue* runtime, const WideProducts& wide)
      : runtime_(runtime),
        wide_(wide.used),
        multiprocessors_(wide.multiprocessors),
        library_(wide.library),
        library_space_(wide.work_space),
        device_index_(wide.device_index),
        on_lost_device_(wide.on_lost_device) {}
  ~CudaProducts() {
    if (library_space_ != nullptr) runtime_->Free(library_space_);
  }
  CudaProducts(const CudaProducts&) = delete;
  CudaProducts& operator=(const CudaProducts&) = delete;

  // Whether bits of a row depend on that row alone.
  bool exact() const { return library_ == nullptr; }

  // Backend::Pack and PackQuantised. Products with the weight may follow: Reserve counts it.
  absl::StatusOr<std::unique_ptr<Weight>> Pack(const WeightSource& source);
  absl::StatusOr<std::unique_ptr<Weight>> PackQuantised(const QuantisedSource& source);
  const GpuProductBounds& bounds() const { return bounds_; }  // of everything covered
  // As Backend::Reserve and GiveBack, for products.
  absl::Status Reserve(const GpuWorkBytes& work);
  void GiveBack();
  int64_t bytes() const;

  // Backend::MatMul of checked operands.
  void MatMul(const TensorView& in, const CudaWeight& w, const TensorView& out);

  // Whether rows beyond kLeafSumRows may be packed where they are made.
  bool PacksManyRows() const { return library_ == nullptr; }
  // Where a kernel puts `in` that makes it ready for its product by itself, instead of in
  // in.rows.   REQUIRES: CudaWeight::packs_rows
  PackedTarget Target(const ProductRows& in);
  // Rows for a product are made that are not packed: earlier packed ones are no longer asked for.
  void ForgetPacked() { packed_ = {}; }
  // Whether `in` is the rows of the last Target, and still there.
  bool IsPacked(const ProductRows& in) const;
  // MatMul of packed rows, which are used up.  REQUIRES: IsPacked
  void MultiplyPacked(const ProductRows& in, const TensorView& out);
  // The same, but for adding up its leaves: [leaves][rows, out_features] until the next product.
  // REQUIRES: LeafSumCount is not 0
  const float* MultiplyLeaves(const ProductRows& in);

 private:
  // 16-bit weights are packed so (CudaWeight::Pack).
  bool plain_rows() const { return library_ != nullptr; }
  const CudaWeight& UsePacked(const ProductRows& in);
  PackedTarget TargetOf(const CudaWeight& w, int64_t rows);
  ProductArgs ArgsOf(const CudaWeight& w, const PackedTarget& in, int64_t rows, float* out,
                     int64_t out_stride);
  void PlainMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out);
  void CodesMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out);
  void MultiplySection(const CudaWeight& w, const CodesSection& section, const uint16_t* packed,
                       int64_t rows, float* out, int64_t out_stride);
  void TensorMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out);
  void Multiply(const CudaWeight& w, const ProductArgs& args);
  [[noreturn]] void EndForLibrary(const absl::Status& error) const;
  // Whether the library has done it; else it has no algorithm for such a product.
  bool MultipliedByLibrary(const TensorView& in, const CudaWeight& w, const TensorView& out);

  // Rows that kernels of wgmma multiply, where the device has them: many, or few and some. Of few
  // rows, leaves are chains that warps of their own follow side by side: by mma.sync.
  bool IsWide(int64_t rows) const { return wide_ && rows > kLeafSumRows; }
  bool IsRing(const LeafMap& leaves, int64_t rows) const {
    return wide_ && rows <= kLeafSumRows && (leaves.leaves == 1 || rows > kStreamRows);
  }

  LaunchQueue* const runtime_;
  const bool wide_;
  const int32_t multiprocessors_;
  const std::shared_ptr<CublasLt> library_;
  void* const library_space_;
  const int32_t device_index_;
  const LostDeviceHandler on_lost_device_;
  WorkSpace packed_rows_{runtime_}, row_scales_{runtime_}, leaf_sums_{runtime_};
  GpuProductBounds bounds_;
  ProductRows packed_;  // whose rows are in packed_rows_; no weight: none
};

}  // namespace tutti::kernels::cuda
