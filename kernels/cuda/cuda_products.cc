#include "kernels/cuda/cuda_products.h"

#include "kernels/cuda/operands.h"
#include "kernels/cuda/product.h"

namespace tutti::kernels::cuda {

void CudaProducts::Cover(const CudaWeight& weight) {
  bounds_.Cover(int64_t{Chunks(weight.leaves())} * kChunkK, weight.leaves().leaves,
                weight.out_features(), weight.dtype());
}

absl::Status CudaProducts::Reserve(const gpu::WorkBytes& work) {
  TUTTI_RETURN_IF_ERROR(packed_rows_.Reserve(work.packed_rows));
  TUTTI_RETURN_IF_ERROR(row_scales_.Reserve(work.row_scales));
  return leaf_sums_.Reserve(work.leaf_sums);
}

int64_t CudaProducts::bytes() const {
  return packed_rows_.bytes() + row_scales_.bytes() + leaf_sums_.bytes();
}

void CudaProducts::MatMul(const TensorView& in, const CudaWeight& w, const TensorView& out) {
  if (in.rows == 0 || out.cols == 0) return;
  if (w.dtype() == DType::kF32) {
    PlainMatMul(in, w, out);
  } else {
    TensorMatMul(in, w, out);
  }
}

void CudaProducts::PlainMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out) {
  LaunchPlainProduct({.weight = static_cast<const float*>(w.data()),
                      .in = in.f32(),
                      .in_stride = Stride(in),
                      .out = out.f32(),
                      .out_stride = Stride(out),
                      .rows = static_cast<int32_t>(in.rows),
                      .out_features = static_cast<int32_t>(out.cols),
                      .padded_out = w.padded_out(),
                      .leaves = w.leaves()},
                     runtime_);
}

void CudaProducts::TensorMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out) {
  const int64_t width = int64_t{1} * Chunks(w.leaves()) * kChunkK;
  const int64_t padded_rows = (in.rows + kTileRows - 1) / kTileRows * kTileRows;
  auto* const packed = packed_rows_.Of<uint16_t>(padded_rows * width);
  const bool scaled = w.dtype() == DType::kF16;
  float* const scale = scaled ? row_scales_.Of<float>(in.rows * w.leaves().leaves) : nullptr;
  LaunchPackRows({.in = in.f32(),
                  .in_stride = Stride(in),
                  .out = packed,
                  .scale = scale,
                  .rows = static_cast<int32_t>(in.rows),
                  .leaves = w.leaves(),
                  .bf16 = w.dtype() == DType::kBF16},
                 runtime_);
  const ProductArgs args = {
      .weight = static_cast<const uint16_t*>(w.data()),
      .in = packed,
      .out = out.f32(),
      .out_stride = Stride(out),
      .rows = static_cast<int32_t>(in.rows),
      .out_features = static_cast<int32_t>(out.cols),
      .out_tiles = static_cast<int32_t>(w.out_tiles()),
      .leaves = w.leaves(),
      .leaf_sums = leaf_sums_.Of<float>(LeafSumCount(w.leaves(), in.rows, out.cols)),
      .scale = scale};
  LaunchProduct(w.dtype(), args, runtime_);
}

}  // namespace tutti::kernels::cuda
