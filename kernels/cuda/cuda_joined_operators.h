// The operators of kernels/joined_operators.h on a GPU: up to kJoinedRows rows of 16-bit models,
// and more of bf16, by the kernels of joined.h and by attention that packs its result. The rest
// operator by operator.
//
// Thread: the backend's.
#pragma once

#include "kernels/cuda/cuda_attention.h"
#include "kernels/cuda/cuda_products.h"
#include "kernels/joined_operators.h"

namespace tutti::kernels::cuda {

class CudaJoinedOperators : public JoinedOperators {
 public:
  // REQUIRES: all outlive it; `backend` is the one of the others.
  CudaJoinedOperators(Backend* backend, LaunchQueue* runtime, CudaProducts* products,
                      CudaAttention* attention)
      : JoinedOperators(backend), runtime_(runtime), products_(products), attention_(attention) {}

  void Norm(TensorView in, const NextNorm& norm) override;
  void SiluMul(TensorView gate_up, ProductRows out) override;
  void Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch, float scale,
                 ProductRows out) override;
  void MatMul(ProductRows in, TensorView out) override;
  void AddResidual(TensorView residual, TensorView delta, DType round_to,
                   const NextNorm& next) override;
  void AddProduct(ProductRows in, TensorView delta, TensorView residual, DType round_to,
                  const NextNorm& next) override;
  void TurnAndWriteKv(TensorView qkv, const HeadTurn& turn, const AttentionBatch& batch,
                      const KvLayer& cache) override;

 private:
  // [leaves] of `rows`, `stride` apart.
  struct Leaves {
    const float* data = nullptr;
    int64_t row_stride = 0, leaf_stride = 0;
    int32_t count = 0;
  };
  // Whether rows of so many are packed where they are made.
  bool Packs(const ProductRows& out) const;
  // False where no kernel joins them; then nothing has been done.
  bool AddNorm(const TensorView& residual, const Leaves& delta, DType round_to,
               const NextNorm& next);
  void CheckViews(const char* operation, std::initializer_list<const TensorView*> views) const;

  LaunchQueue* const runtime_;
  CudaProducts* const products_;
  CudaAttention* const attention_;
};

}  // namespace tutti::kernels::cuda
