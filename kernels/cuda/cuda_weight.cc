#include "kernels/cuda/cuda_weight.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/cuda/leaf_map.h"
#include "kernels/cuda/packing.h"

namespace tutti::kernels::cuda {

const CudaWeight& CudaWeight::Of(const Weight& weight) {
  const auto* own = dynamic_cast<const CudaWeight*>(&weight);
  CHECK(own != nullptr) << "on cuda: a weight packed by another backend";
  return *own;
}

const CudaWeight& CudaWeight::OfNumbers(const Weight& weight) {
  const CudaWeight& own = Of(weight);
  CHECK(own.codes() == nullptr) << "on cuda: a weight of codes where numbers are read";
  return own;
}

int64_t CudaWeight::PackedBytes() const {
  if (shape_.dtype == DType::kF32) return padded_out() * shape_.in_features * 4;
  return out_tiles() * kTileOut * Chunks(leaves_) * kChunkK * 2;
}

absl::StatusOr<std::unique_ptr<CudaWeight>> CudaWeight::Pack(Runtime* runtime,
                                                             const WeightSource& source,
                                                             bool plain_rows) {
  TUTTI_ASSIGN_OR_RETURN(WeightShape shape, CheckWeightSource(source));
  auto leaves = MakeLeafMap(shape.leaf_begin);
  if (!leaves.ok()) return Annotate(leaves.status(), absl::StrCat("weight ", source.name));
  std::unique_ptr<CudaWeight> weight(new CudaWeight(std::move(shape), *leaves, plain_rows));
  TUTTI_ASSIGN_OR_RETURN(weight->data_, CudaBuffer::MakeConstant(runtime, weight->PackedBytes()));
  TUTTI_RETURN_IF_ERROR(weight->Fill(runtime, source));
  return weight;
}

absl::StatusOr<std::unique_ptr<CudaWeight>> CudaWeight::PackQuantised(
    Runtime* runtime, const QuantisedSource& source) {
  TUTTI_ASSIGN_OR_RETURN(auto leaf_begin, CheckQuantisedSource(source));
  if (source.rounds_rows) {
    return absl::UnimplementedError(absl::StrCat(
        "weight ", source.name,
        ": its products round activations to int8 (W8A8), for which there "
        "are no CUDA kernels; the cpu backend has some, and weights in int8 alone load here"));
  }
  TUTTI_ASSIGN_OR_RETURN(auto codes, CudaCodes::Pack(runtime, source, leaf_begin));
  const bool plain = source.computed_in == DType::kF32;
  WeightShape shape = {.out_features = source.out_features(),
                       .in_features = source.in_features,
                       .dtype = plain ? DType::kF32 : DType::kBF16,
                       .leaf_begin = std::move(leaf_begin)};
  const LeafMap leaves = codes->sections().front().args.leaves;
  std::unique_ptr<CudaWeight> weight(new CudaWeight(std::move(shape), leaves, false));
  weight->codes_ = std::move(codes);
  return weight;
}

// Rows pass through a staging buffer on the device and are put in place there: the host only reads
// the checkpoint.
absl::Status CudaWeight::Fill(Runtime* runtime, const WeightSource& source) {
  const int64_t row_bytes = shape_.in_features * DTypeBytes(shape_.dtype);
  if (row_bytes == 0 || shape_.out_features == 0) return absl::OkStatus();
  const int64_t rows_max =
      std::min(std::max<int64_t>(kPackStagingBytes / row_bytes, 1), shape_.out_features);
  TUTTI_ASSIGN_OR_RETURN(const auto staging, CudaBuffer::Make(runtime, rows_max * row_bytes));
  PackWeightArgs args = {.in = staging->data(),
                         .out = data_->data(),
                         .padded_out = padded_out(),
                         .leaves = leaves_,
                         .type = shape_.dtype,
                         .plain_rows = plain_rows_};
  for (const TensorView& part : source.parts) {
    for (int64_t r = 0; r < part.rows; r += rows_max) {
      args.rows = std::min(rows_max, part.rows - r);
      runtime->Upload(staging->data(), row_bytes, part.Rows(r, args.rows).data,
                      part.row_stride * DTypeBytes(part.dtype), row_bytes, args.rows);
      LaunchPackWeight(args, runtime);
      args.first_row += args.rows;
    }
  }
  return absl::OkStatus();
}

}  // namespace tutti::kernels::cuda
