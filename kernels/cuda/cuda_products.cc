#include "kernels/cuda/cuda_products.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cuda/codes.h"
#include "kernels/cuda/library_rows.h"
#include "kernels/cuda/lost_device.h"
#include "kernels/cuda/operands.h"
#include "kernels/cuda/packing.h"
#include "kernels/cuda/product_hopper.h"
#include "kernels/cuda/product_ring.h"

namespace tutti::kernels::cuda {

absl::StatusOr<std::unique_ptr<Weight>> CudaProducts::Pack(const WeightSource& source) {
  TUTTI_ASSIGN_OR_RETURN(auto weight, CudaWeight::Pack(runtime_, source, plain_rows()));
  bounds_.Cover(int64_t{Chunks(weight->leaves())} * kChunkK, weight->leaves().leaves,
                weight->out_features(), weight->dtype());
  return weight;
}

absl::StatusOr<std::unique_ptr<Weight>> CudaProducts::PackQuantised(const QuantisedSource& source) {
  TUTTI_ASSIGN_OR_RETURN(auto weight, CudaWeight::PackQuantised(runtime_, source));
  bounds_.Cover(weight->codes()->packed_width(), weight->leaves().leaves, weight->out_features(),
                weight->dtype());
  return weight;
}

absl::Status CudaProducts::Reserve(const GpuWorkBytes& work) {
  TUTTI_RETURN_IF_ERROR(packed_rows_.Reserve(work.packed_rows));
  TUTTI_RETURN_IF_ERROR(row_scales_.Reserve(work.row_scales));
  return leaf_sums_.Reserve(work.leaf_sums);
}

void CudaProducts::GiveBack() {
  for (WorkSpace* const space : {&packed_rows_, &row_scales_, &leaf_sums_}) space->GiveBack();
  bounds_ = {};
  packed_ = {};
}

int64_t CudaProducts::bytes() const {
  return packed_rows_.bytes() + row_scales_.bytes() + leaf_sums_.bytes();
}

void CudaProducts::MatMul(const TensorView& in, const CudaWeight& w, const TensorView& out) {
  if (in.rows == 0 || out.cols == 0) return;
  if (w.codes() != nullptr) return CodesMatMul(in, w, out);
  if (w.dtype() == DType::kF32) {
    PlainMatMul(in, w, out);
    return;
  }
  if (!plain_rows() || in.rows <= kLeafSumRows) return TensorMatMul(in, w, out);
  if (MultipliedByLibrary(in, w, out)) return;
  for (int64_t r = 0; r < in.rows; r += kLeafSumRows) {
    const int64_t rows = std::min<int64_t>(kLeafSumRows, in.rows - r);
    TensorMatMul(in.Rows(r, rows), w, out.Rows(r, rows));
  }
}

// Its errors are those of a device that has been lost: what it could not do at all was told before.
void CudaProducts::EndForLibrary(const absl::Status& error) const {
  EndForLostDevice(device_index_, "multiplying many rows",
                   std::string_view(error.message().data(), error.message().size()),
                   on_lost_device_);
}

bool CudaProducts::MultipliedByLibrary(const TensorView& in, const CudaWeight& w,
                                       const TensorView& out) {
  packed_ = {};
  const PackedTarget target = TargetOf(w, in.rows);
  const LibraryProduct product = {.type = w.dtype(),
                                  .weight = static_cast<const uint16_t*>(w.data()),
                                  .in = target.rows,
                                  .out = out.f32(),
                                  .out_stride = Stride(out),
                                  .rows = in.rows,
                                  .out_features = out.cols,
                                  .width = int64_t{1} * Chunks(w.leaves()) * kChunkK};
  const absl::StatusOr<bool> has = library_->Has(product);
  if (!has.ok()) EndForLibrary(has.status());
  if (!*has) return false;
  LaunchPlainRows({.in = in.f32(),
                   .in_stride = Stride(in),
                   .out = target.rows,
                   .scale = target.scale,
                   .rows = static_cast<int32_t>(in.rows),
                   .leaves = w.leaves(),
                   .bf16 = w.dtype() == DType::kBF16 ? 1 : 0},
                  runtime_);
  // What was recorded starts first: the library queues behind it.
  const absl::Status done = library_->Multiply(product, library_space_, runtime_->stream());
  if (!done.ok()) EndForLibrary(done);
  if (target.scale != nullptr) {
    LaunchScaleBackRows({.out = out.f32(),
                         .out_stride = Stride(out),
                         .scale = target.scale,
                         .rows = in.rows,
                         .cols = out.cols},
                        runtime_);
  }
  return true;
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
  packed_ = {};  // they are written over
  const PackedTarget target = TargetOf(w, in.rows);
  LaunchPackRows({.in = in.f32(),
                  .in_stride = Stride(in),
                  .out = target.rows,
                  .scale = target.scale,
                  .rows = static_cast<int32_t>(in.rows),
                  .leaves = w.leaves(),
                  .bf16 = w.dtype() == DType::kBF16,
                  .wide = IsWide(in.rows),
                  .pieces = target.pieces},
                 runtime_);
  Multiply(w, ArgsOf(w, target, in.rows, out.f32(), Stride(out)));
}

void CudaProducts::CodesMatMul(const TensorView& in, const CudaWeight& w, const TensorView& out) {
  if (w.dtype() != DType::kF32) packed_ = {};
  for (const CodesSection& section : w.codes()->sections()) {
    if (section.rows == 0) continue;
    if (w.dtype() == DType::kF32) {
      PlainCodesArgs args = {
          .codes = section.args, .in = in.f32(), .in_stride = Stride(in), .order = section.order};
      args.codes.rows = static_cast<int32_t>(in.rows);
      args.codes.out = out.f32() + section.first_row;
      args.codes.out_stride = Stride(out);
      LaunchPlainCodes(args, runtime_);
      continue;
    }
    const int32_t chunks = Chunks(section.args.leaves);
    auto* const packed =
        packed_rows_.Of<uint16_t>(GpuPackedRows(in.rows) * int64_t{chunks} * kChunkK);
    if (section.order != nullptr) {
      LaunchGatherPacked({.in = in.f32(),
                          .in_stride = Stride(in),
                          .order = section.order,
                          .out = packed,
                          .rows = static_cast<int32_t>(in.rows),
                          .chunks = chunks},
                         runtime_);
    } else {
      LaunchPackRows({.in = in.f32(),
                      .in_stride = Stride(in),
                      .out = packed,
                      .rows = static_cast<int32_t>(in.rows),
                      .leaves = section.args.leaves},
                     runtime_);
    }
    MultiplySection(w, section, packed, in.rows, out.f32(), Stride(out));
  }
}

// Adds its leaves up where `out` is set.
void CudaProducts::MultiplySection(const CudaWeight& w, const CodesSection& section,
                                   const uint16_t* packed, int64_t rows, float* out,
                                   int64_t out_stride) {
  const int64_t leaf_sums = LeafSumCount(w.leaves(), rows, w.out_features());
  CodesArgs args = section.args;
  args.in = packed;
  args.rows = static_cast<int32_t>(rows);
  args.out = out == nullptr ? nullptr : out + section.first_row;
  args.out_stride = out_stride;
  if (leaf_sums > 0) {
    args.leaf_sums = leaf_sums_.Of<float>(leaf_sums) + section.first_row;
    args.leaf_row_stride = w.out_features();
    args.leaf_stride = rows * w.out_features();
  }
  LaunchCodesProduct(args, runtime_);
  const bool last = section.first_row + section.rows == w.out_features();
  if (leaf_sums == 0 || out == nullptr || !last) return;
  LaunchAddLeafSums({.out = out,
                     .out_stride = out_stride,
                     .rows = static_cast<int32_t>(rows),
                     .out_features = static_cast<int32_t>(w.out_features()),
                     .leaves = w.leaves(),
                     .leaf_sums = args.leaf_sums - section.first_row},
                    runtime_);
}

void CudaProducts::Multiply(const CudaWeight& w, const ProductArgs& args) {
  if (w.codes() != nullptr) {
    return MultiplySection(w, w.codes()->sections().front(), args.in, args.rows, args.out,
                           args.out_stride);
  }
  if (IsWide(args.rows)) return LaunchWideProduct(w.dtype(), args, multiprocessors_, runtime_);
  if (IsRing(w.leaves(), args.rows))
    return LaunchRingProduct(w.dtype(), args, multiprocessors_, runtime_);
  LaunchProduct(w.dtype(), args, runtime_);
}

PackedTarget CudaProducts::TargetOf(const CudaWeight& w, int64_t rows) {
  const int64_t width = int64_t{1} * Chunks(w.leaves()) * kChunkK;
  const bool scaled = w.dtype() == DType::kF16;
  if (w.codes() != nullptr) {
    return {.rows = packed_rows_.Of<uint16_t>(GpuPackedRows(rows) * width), .leaves = w.leaves()};
  }
  return {.rows = packed_rows_.Of<uint16_t>(GpuPackedRows(rows) * width),
          .scale = scaled ? row_scales_.Of<float>(rows * w.leaves().leaves) : nullptr,
          .leaves = w.leaves(),
          .bf16 = w.dtype() == DType::kBF16,
          .wide = IsWide(rows),
          .pieces = static_cast<int16_t>(IsRing(w.leaves(), rows) ? RowPieces(rows) : 0)};
}

ProductArgs CudaProducts::ArgsOf(const CudaWeight& w, const PackedTarget& in, int64_t rows,
                                 float* out, int64_t out_stride) {
  return {.weight = static_cast<const uint16_t*>(w.data()),
          .in = in.rows,
          .out = out,
          .out_stride = out_stride,
          .rows = static_cast<int32_t>(rows),
          .out_features = static_cast<int32_t>(w.out_features()),
          .out_tiles = static_cast<int32_t>(w.out_tiles()),
          .leaves = w.leaves(),
          .leaf_sums = leaf_sums_.Of<float>(LeafSumCount(w.leaves(), rows, w.out_features())),
          .scale = in.scale,
          .plain_rows = w.plain_rows() ? 1 : 0};
}

PackedTarget CudaProducts::Target(const ProductRows& in) {
  const CudaWeight& w = CudaWeight::Of(*in.weight);
  CHECK(w.packs_rows());
  packed_ = in;
  return TargetOf(w, in.rows.rows);
}

bool CudaProducts::IsPacked(const ProductRows& in) const {
  return in.weight != nullptr && packed_.weight == in.weight && packed_.rows.data == in.rows.data &&
         packed_.rows.rows == in.rows.rows;
}

const CudaWeight& CudaProducts::UsePacked(const ProductRows& in) {
  CHECK(IsPacked(in));
  packed_ = {};
  return CudaWeight::Of(*in.weight);
}

void CudaProducts::MultiplyPacked(const ProductRows& in, const TensorView& out) {
  const CudaWeight& w = UsePacked(in);
  Multiply(w, ArgsOf(w, TargetOf(w, in.rows.rows), in.rows.rows, out.f32(), Stride(out)));
}

const float* CudaProducts::MultiplyLeaves(const ProductRows& in) {
  const CudaWeight& w = UsePacked(in);
  CHECK(LeafSumCount(w.leaves(), in.rows.rows, w.out_features()) > 0);
  const ProductArgs args = ArgsOf(w, TargetOf(w, in.rows.rows), in.rows.rows, nullptr, 0);
  Multiply(w, args);
  return args.leaf_sums;
}

}  // namespace tutti::kernels::cuda
