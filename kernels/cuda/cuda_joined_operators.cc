#include "kernels/cuda/cuda_joined_operators.h"

#include "base/check.h"
#include "kernels/cuda/operands.h"

namespace tutti::kernels::cuda {

// Rows of f16 are scaled by leaf, which kernels of many rows leave to the product.
bool CudaJoinedOperators::Packs(const ProductRows& out) const {
  if (out.weight == nullptr) return false;
  const CudaWeight& weight = CudaWeight::Of(*out.weight);
  if (out.rows.rows <= kJoinedRows) return weight.packs_rows();
  return weight.packs_rows() && weight.dtype() == DType::kBF16 &&
         (products_->PacksManyRows() || weight.codes() != nullptr);
}

void CudaJoinedOperators::CheckViews(const char* operation,
                                     std::initializer_list<const TensorView*> views) const {
  CheckOperands(operation, backend_->device(), *runtime_, views);
}

bool CudaJoinedOperators::AddNorm(const TensorView& residual, const Leaves& delta, DType round_to,
                                  const NextNorm& next) {
  if (!FitsAddNorm(residual.cols)) return false;
  AddNormArgs args = {.residual = residual.f32(),
                      .residual_stride = Stride(residual),
                      .delta = delta.data,
                      .delta_stride = delta.row_stride,
                      .leaf_stride = delta.leaf_stride,
                      .rows = residual.rows,
                      .cols = residual.cols,
                      .epsilon = next.epsilon,
                      .leaves = delta.count,
                      .round_to = round_to};
  if (next.weight.data != nullptr) {
    CheckRmsNorm(residual, next.weight, next.out.rows);
    CheckViews("RmsNorm", {&next.weight, &next.out.rows});
    args.norm = next.weight.f32();
    if (Packs(next.out)) {
      args.packed = products_->Target(next.out);
    } else {
      products_->ForgetPacked();
      args.out = next.out.rows.f32();
      args.out_stride = Stride(next.out.rows);
    }
  }
  if (residual.rows > kJoinedRows && !TakesManyRows(args)) {
    products_->ForgetPacked();
    return false;
  }
  LaunchAddNorm(args, runtime_);
  return true;
}

void CudaJoinedOperators::Norm(TensorView in, const NextNorm& norm) {
  if (Packs(norm.out)) {
    CheckViews("RmsNorm", {&in});
    if (AddNorm(in, {}, DType::kF32, norm)) return;
  }
  products_->ForgetPacked();
  JoinedOperators::Norm(in, norm);
}

void CudaJoinedOperators::SiluMul(TensorView gate_up, ProductRows out) {
  if (!Packs(out)) {
    products_->ForgetPacked();
    return JoinedOperators::SiluMul(gate_up, out);
  }
  CheckSiluMul(gate_up, out.rows);
  CheckViews("SiluMul", {&gate_up, &out.rows});
  LaunchSiluPack({.gate_up = gate_up.f32(),
                  .stride = Stride(gate_up),
                  .rows = gate_up.rows,
                  .packed = products_->Target(out)},
                 runtime_);
}

void CudaJoinedOperators::Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch,
                                    float scale, ProductRows out) {
  if (q.rows == 0 || q.rows > kJoinedRows || !Packs(out) ||
      !CudaAttention::Packs(cache.shape, CudaWeight::Of(*out.weight))) {
    products_->ForgetPacked();
    return JoinedOperators::Attention(q, cache, batch, scale, out);
  }
  CheckAttention(q, cache, batch, out.rows);
  CheckViews("Attention", {&q, &out.rows});
  attention_->AttentionPacked(q, cache, batch, scale, products_->Target(out));
}

void CudaJoinedOperators::MatMul(ProductRows in, TensorView out) {
  if (!products_->IsPacked(in)) return JoinedOperators::MatMul(in, out);
  CheckMatMul(in.rows, *in.weight, out);
  CheckViews("MatMul", {&out});
  if (in.rows.rows > 0 && out.cols > 0) products_->MultiplyPacked(in, out);
}

void CudaJoinedOperators::AddResidual(TensorView residual, TensorView delta, DType round_to,
                                      const NextNorm& next) {
  CheckAddResidual(residual, delta);
  CheckViews("AddResidual", {&residual, &delta});
  if (!AddNorm(residual, {.data = delta.f32(), .row_stride = Stride(delta), .count = 1}, round_to,
               next)) {
    JoinedOperators::AddResidual(residual, delta, round_to, next);
  }
}

void CudaJoinedOperators::AddProduct(ProductRows in, TensorView delta, TensorView residual,
                                     DType round_to, const NextNorm& next) {
  const int64_t rows = in.rows.rows;
  if (!products_->IsPacked(in) || !FitsAddNorm(residual.cols) ||
      LeafSumCount(CudaWeight::Of(*in.weight).leaves(), rows, residual.cols) == 0) {
    return JoinedOperators::AddProduct(in, delta, residual, round_to, next);
  }
  CheckMatMul(in.rows, *in.weight, residual);
  CheckViews("AddResidual", {&residual});
  const float* const sums = products_->MultiplyLeaves(in);
  AddNorm(residual,
          {.data = sums,
           .row_stride = residual.cols,
           .leaf_stride = rows * residual.cols,
           .count = CudaWeight::Of(*in.weight).leaves().leaves},
          round_to, next);
}

void CudaJoinedOperators::TurnAndWriteKv(TensorView qkv, const HeadTurn& turn,
                                         const AttentionBatch& batch, const KvLayer& cache) {
  if (qkv.rows > kJoinedRows && !CudaAttention::TurnsManyRows(cache.shape)) {
    return JoinedOperators::TurnAndWriteKv(qkv, turn, batch, cache);
  }
  const int64_t head_dim = cache.shape.head_dim, kv_width = cache.shape.kv_heads * head_dim;
  const int64_t q_width = qkv.cols - 2 * kv_width;
  const TensorView k = qkv.Columns(q_width, kv_width);
  if (turn.bias.data != nullptr) CheckAddBias(qkv, turn.bias);
  CheckHeadNormRope(qkv.Columns(0, q_width), head_dim, turn.query_norm, turn.positions,
                    turn.inverse_frequency);
  CheckHeadNormRope(k, head_dim, turn.key_norm, turn.positions, turn.inverse_frequency);
  CheckWriteKv(k, qkv.Columns(q_width + kv_width, kv_width), batch, cache);
  CheckViews("TurnAndWriteKv", {&qkv, &turn.bias, &turn.query_norm, &turn.key_norm});
  CHECK(runtime_->Holds(cache.data, backend_->KvLayerBytes(cache.shape))) << "the KV cache";
  attention_->TurnAndWriteKv(qkv, turn, batch, cache);
}

}  // namespace tutti::kernels::cuda
