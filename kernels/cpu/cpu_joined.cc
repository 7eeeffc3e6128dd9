#include "kernels/cpu/cpu_joined.h"

#include "kernels/shape_checks.h"

namespace tutti::kernels::cpu {

void CpuJoined::Norm(TensorView in, const NextNorm& norm) {
  const Weight* const weight = norm.out.weight;
  if (weight == nullptr || !products_.BeginRows(*weight, in.rows)) {
    return JoinedOperators::Norm(in, norm);
  }
  CheckRmsNorm(in, norm.weight, norm.out.rows);
  products_.ForRows(in.rows, in.cols, [&](int thread, int64_t r) {
    float* row = products_.ThreadFloats(thread, in.cols);
    kernels_->rms_norm(in.f32(r), norm.weight.f32(), norm.epsilon, row, in.cols);
    products_.PackRow(r, row);
  });
}

void CpuJoined::SiluMul(TensorView gate_up, ProductRows out) {
  const int64_t cols = out.rows.cols;
  if (out.weight == nullptr || !products_.BeginRows(*out.weight, gate_up.rows)) {
    return JoinedOperators::SiluMul(gate_up, out);
  }
  CheckSiluMul(gate_up, out.rows);
  products_.ForRows(gate_up.rows, gate_up.cols, [&](int thread, int64_t r) {
    float* row = products_.ThreadFloats(thread, cols);
    kernels_->silu_mul(gate_up.f32(r), gate_up.f32(r) + cols, row, cols);
    products_.PackRow(r, row);
  });
}

void CpuJoined::MatMul(ProductRows in, TensorView out) {
  if (!products_.HasRows(*in.weight)) return JoinedOperators::MatMul(in, out);
  CheckMatMul(in.rows, *in.weight, out);
  products_.MultiplyRows(*in.weight, out);
}

void CpuJoined::AddResidual(TensorView residual, TensorView delta, DType round_to,
                            const NextNorm& next) {
  const Weight* const weight = next.weight.data == nullptr ? nullptr : next.out.weight;
  if (weight == nullptr || !products_.BeginRows(*weight, residual.rows)) {
    return JoinedOperators::AddResidual(residual, delta, round_to, next);
  }
  CheckAddResidual(residual, delta);
  CheckRmsNorm(residual, next.weight, next.out.rows);
  products_.ForRows(residual.rows, residual.cols, [&](int thread, int64_t r) {
    float* row = products_.ThreadFloats(thread, residual.cols);
    kernels_->add(residual.f32(r), delta.f32(r), residual.cols, round_to);
    kernels_->rms_norm(residual.f32(r), next.weight.f32(), next.epsilon, row, residual.cols);
    products_.PackRow(r, row);
  });
}

}  // namespace tutti::kernels::cpu
