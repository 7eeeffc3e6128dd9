// Joined operators of the cpu backend: a row is made, and packed for the product that is to come,
// while it is in the first cache; it is never stored as f32. And what follows a product row by row
// is one pass over its output.
//
// Where rows cannot be packed one by one (CpuProducts::BeginRows), the operators are called one
// after the other.
#pragma once

#include "kernels/cpu/cpu_products.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/joined_operators.h"

namespace tutti::kernels::cpu {

class CpuJoined : public JoinedOperators {
 public:
  // Keeps both. REQUIRES: they outlive it
  CpuJoined(Backend* backend, CpuProducts* products)
      : JoinedOperators(backend), products_(*products) {}

  // Rows are made by these from now on.
  void Use(const KernelTable* kernels) { kernels_ = kernels; }

  void Norm(TensorView in, const NextNorm& norm) override;
  void SiluMul(TensorView gate_up, ProductRows out) override;
  void MatMul(ProductRows in, TensorView out) override;
  void AddResidual(TensorView residual, TensorView delta, DType round_to,
                   const NextNorm& next) override;

 private:
  CpuProducts& products_;
  const KernelTable* kernels_ = nullptr;
};

}  // namespace tutti::kernels::cpu
