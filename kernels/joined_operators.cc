#include "kernels/joined_operators.h"

namespace tutti::kernels {

void JoinedOperators::Norm(TensorView in, const NextNorm& norm) {
  backend_->RmsNorm(in, norm.weight, norm.epsilon, norm.out.rows);
}

void JoinedOperators::SiluMul(TensorView gate_up, ProductRows out) {
  backend_->SiluMul(gate_up, out.rows);
}

void JoinedOperators::Attention(TensorView q, const KvLayer& cache, const AttentionBatch& batch,
                                float scale, ProductRows out) {
  backend_->Attention(q, cache, batch, scale, out.rows);
}

void JoinedOperators::MatMul(ProductRows in, TensorView out) {
  backend_->MatMul(in.rows, *in.weight, out);
}

void JoinedOperators::AddResidual(TensorView residual, TensorView delta, DType round_to,
                                  const NextNorm& next) {
  backend_->AddResidual(residual, delta, round_to);
  if (next.weight.data != nullptr) Norm(residual, next);
}

void JoinedOperators::AddProduct(ProductRows in, TensorView delta, TensorView residual,
                                 DType round_to, const NextNorm& next) {
  MatMul(in, delta);
  AddResidual(residual, delta, round_to, next);
}

void JoinedOperators::TurnAndWriteKv(TensorView qkv, const HeadTurn& turn,
                                     const AttentionBatch& batch, const KvLayer& cache) {
  const int64_t head_dim = cache.shape.head_dim, kv_width = cache.shape.kv_heads * head_dim;
  const int64_t q_width = qkv.cols - 2 * kv_width;
  const TensorView q = qkv.Columns(0, q_width), k = qkv.Columns(q_width, kv_width);
  if (turn.bias.data != nullptr) backend_->AddBias(qkv, turn.bias);
  backend_->HeadNormRope(q, head_dim, turn.query_norm, turn.epsilon, turn.positions,
                         turn.inverse_frequency);
  backend_->HeadNormRope(k, head_dim, turn.key_norm, turn.epsilon, turn.positions,
                         turn.inverse_frequency);
  backend_->WriteKv(k, qkv.Columns(q_width + kv_width, kv_width), batch, cache);
}

}  // namespace tutti::kernels
