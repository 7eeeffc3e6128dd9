// Products that are added to the residual stream, and what ranks tell each other for them.
#include "kernels/family_operators.h"
#include "kernels/row_integers.h"
#include "worker/transformer.h"

namespace tutti::worker {

using kernels::NextNorm;
using kernels::ProductRows;
using kernels::TensorView;

absl::StatusOr<TensorView> Transformer::AcquireRows(int64_t rows) {
  const int64_t bytes = rows * config_.hidden_size * static_cast<int64_t>(sizeof(float));
  TUTTI_ASSIGN_OR_RETURN(const std::span<std::byte> memory, options_.collective->Acquire(bytes));
  return HostView(memory.data(), DType::kF32, rows, config_.hidden_size);
}

// Each rank tells the others its own.
absl::Status Transformer::FindLargest(TensorView part) {
  const auto [ranks, rank] = options_.place;
  const int64_t rows = part.rows, bytes = rows * static_cast<int64_t>(sizeof(float));
  TUTTI_ASSIGN_OR_RETURN(const std::span<std::byte> memory,
                         options_.collective->Acquire(ranks * bytes));
  auto* const all = reinterpret_cast<float*>(memory.data());
  for (int64_t r = 0; r < rows; ++r) {
    all[rank * rows + r] = kernels::LargestOfRow(part.f32(r), part.cols);
  }
  gather_begin_.clear();
  for (int i = 0; i <= ranks; ++i) gather_begin_.push_back(i * bytes);
  TUTTI_RETURN_IF_ERROR(options_.collective->Gather(gather_begin_));
  largest_.assign(all, all + rows);
  for (int64_t i = rows; i < ranks * rows; ++i) {
    // What is no number is the largest of all, here too.
    const float both[] = {largest_[i % rows], all[i]};
    largest_[i % rows] = kernels::LargestOfRow(both, 2);
  }
  return absl::OkStatus();
}

absl::Status Transformer::AddProduct(const ProductRows& in, DType round_to, const NextNorm& next) {
  const int64_t rows = in.rows.rows;
  const TensorView residual = scratch_.residual.Rows(0, rows);
  if (options_.place.ranks == 1) {
    joined_->AddProduct(in, scratch_.delta.Rows(0, rows), residual, round_to, next);
    return absl::OkStatus();
  }
  if (options_.collective->on_device()) {
    const TensorView delta = scratch_.delta.Rows(0, rows);
    joined_->MatMul(in, delta);
    TUTTI_RETURN_IF_ERROR(options_.collective->SumOnDevice(delta));
    joined_->AddResidual(residual, delta, round_to, next);
    return absl::OkStatus();
  }
  const bool rounds = in.weight->rounds_rows();
  if (rounds) TUTTI_RETURN_IF_ERROR(FindLargest(in.rows));
  TUTTI_ASSIGN_OR_RETURN(const TensorView to_others, AcquireRows(rows));
  // Exchanges work in host memory. Where that is also the backend's, the product goes there at
  // once.
  const bool on_host = backend_->device() == to_others.device;
  const TensorView delta = on_host ? TensorView() : scratch_.delta.Rows(0, rows);
  if (rounds) {
    backend_->family_operators()->MatMulRounded(in.rows, largest_, *in.weight, to_others);
  } else {
    joined_->MatMul(in, on_host ? to_others : delta);
  }
  if (!on_host) backend_->Convert(delta, to_others);
  TUTTI_ASSIGN_OR_RETURN(const std::span<const float> sum, options_.collective->Sum());
  const TensorView summed =
      HostView(const_cast<float*>(sum.data()), DType::kF32, rows, config_.hidden_size);
  if (!on_host) backend_->Convert(summed, delta);
  joined_->AddResidual(residual, on_host ? summed : delta, round_to, next);
  return absl::OkStatus();
}

}  // namespace tutti::worker
