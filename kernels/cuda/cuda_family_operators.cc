#include "kernels/cuda/cuda_family_operators.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/experts.h"
#include "kernels/cuda/operands.h"

namespace tutti::kernels::cuda {
absl::Status CudaFamilyOperators::Reserve(const GpuWorkBytes& work, const GpuArrayBytes& arrays) {
  TUTTI_RETURN_IF_ERROR(choice_.Reserve(work.choice));
  for (Uploads* uploads : {&scales_, &gathered_}) {
    TUTTI_RETURN_IF_ERROR(uploads->Reserve(arrays.rows));
  }
  for (Uploads* uploads : {&summed_, &weights_}) {
    TUTTI_RETURN_IF_ERROR(uploads->Reserve(arrays.expert_rows));
  }
  return absl::OkStatus();
}

void CudaFamilyOperators::GiveBack() {
  choice_.GiveBack();
  for (Uploads* uploads : {&scales_, &gathered_, &summed_, &weights_}) uploads->GiveBack();
}

int64_t CudaFamilyOperators::bytes() const {
  return choice_.bytes() + scales_.bytes() + gathered_.bytes() + summed_.bytes() + weights_.bytes();
}

void CudaFamilyOperators::ScaleRows(TensorView x, std::span<const float> scale) {
  CheckScaleRows(x, scale);
  CheckOperands("ScaleRows", device_, *runtime_, {&x});
  if (x.rows == 0) return;
  LaunchScaleRows({.x = x.f32(),
                   .stride = Stride(x),
                   .rows = x.rows,
                   .cols = x.cols,
                   .scale = scales_.Get(scale)},
                  runtime_);
}

void CudaFamilyOperators::SelectExperts(TensorView logits, int64_t count, bool normalise,
                                        std::span<int32_t> experts, std::span<float> shares) {
  CheckSelectExperts(logits, count, experts, shares);
  CheckOperands("SelectExperts", device_, *runtime_, {&logits});
  if (logits.rows == 0) return;
  // Choice and shares next to each other, so that one copy brings both.
  static_assert(sizeof(int32_t) == sizeof(float));
  const auto chosen_bytes = static_cast<int64_t>(experts.size_bytes());
  auto* const chosen = static_cast<char*>(choice_.AtLeast(2 * chosen_bytes));
  LaunchSelectExperts({.logits = logits.f32(),
                       .stride = Stride(logits),
                       .rows = logits.rows,
                       .experts = static_cast<int32_t>(logits.cols),
                       .count = static_cast<int32_t>(count),
                       .normalise = normalise,
                       .chosen = reinterpret_cast<int32_t*>(chosen),
                       .shares = reinterpret_cast<float*>(chosen + chosen_bytes)},
                      runtime_);
  answer_.resize(2 * static_cast<size_t>(chosen_bytes));
  runtime_->Download(answer_.data(), 2 * chosen_bytes, chosen, 2 * chosen_bytes, 2 * chosen_bytes,
                     1);
  std::memcpy(experts.data(), answer_.data(), experts.size_bytes());
  std::memcpy(shares.data(), answer_.data() + chosen_bytes, shares.size_bytes());
}

void CudaFamilyOperators::GatherRows(TensorView in, std::span<const int32_t> rows, TensorView out) {
  CheckGatherRows(in, rows, out);
  CheckOperands("GatherRows", device_, *runtime_, {&in, &out});
  if (out.rows == 0) return;
  LaunchSumRows({.in = in.f32(),
                 .in_stride = Stride(in),
                 .source = gathered_.Get(rows),
                 .out = out.f32(),
                 .out_stride = Stride(out),
                 .rows = out.rows,
                 .cols = out.cols},
                runtime_);
}

void CudaFamilyOperators::SumRows(TensorView in, std::span<const int32_t> rows,
                                  std::span<const float> weights, TensorView out) {
  CheckSumRows(in, rows, weights, out);
  CheckOperands("SumRows", device_, *runtime_, {&in, &out});
  if (out.rows == 0) return;
  // The products of chosen experts differ from step to step; the operators that follow, up to the
  // next choice, do not: they are a list of their own, which graphs can replay.
  runtime_->Flush();
  LaunchSumRows({.in = in.f32(),
                 .in_stride = Stride(in),
                 .source = summed_.Get(rows),
                 .weights = weights_.Get(weights),
                 .terms = static_cast<int64_t>(rows.size()) / out.rows,
                 .out = out.f32(),
                 .out_stride = Stride(out),
                 .rows = out.rows,
                 .cols = out.cols},
                runtime_);
}

}  // namespace tutti::kernels::cuda
