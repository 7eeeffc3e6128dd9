// Checks of operator arguments, the same for every backend.
#pragma once

#include <initializer_list>

#include "base/status.h"
#include "kernels/backend.h"

namespace tutti::kernels {

// Shape of a packed weight, derived from its source.
struct WeightShape {
  int64_t out_features = 0;
  int64_t in_features = 0;
  DType dtype = DType::kF32;
  std::vector<int64_t> leaf_begin;  // [leaves + 1], never empty
};

// INVALID_ARGUMENT naming the source when parts differ in width or type, or the leaves do not cover
// `in` in order.
absl::StatusOr<WeightShape> CheckWeightSource(const WeightSource& source);

// `leaf_begin`, which is never empty. INVALID_ARGUMENT naming the source: leaves that do not cover
// the inputs in order, groups that are none, parts that differ where they must not.
absl::StatusOr<std::vector<int64_t>> CheckQuantisedSource(const QuantisedSource& source);

// The rest CHECK: the transformer is the only caller, and its shapes come from a validated
// configuration.
void CheckEmbed(std::span<const int32_t> ids, const Weight& weight, const TensorView& out);
void CheckMatMul(const TensorView& in, const Weight& weight, const TensorView& out);
void CheckRmsNorm(const TensorView& in, const TensorView& weight, const TensorView& out);
void CheckHeadNormRope(const TensorView& x, int64_t head_dim, const TensorView& norm,
                       std::span<const int32_t> positions,
                       std::span<const float> inverse_frequency);
void CheckAddBias(const TensorView& x, const TensorView& bias);
void CheckSiluMul(const TensorView& gate_up, const TensorView& out);
void CheckAddResidual(const TensorView& residual, const TensorView& delta);
void CheckConvert(const TensorView& in, const TensorView& out);
void CheckKvShape(const KvShape& shape);
// Also that every block a row needs lies inside the cache.
void CheckAttentionBatch(const AttentionBatch& batch, int64_t rows, const KvShape& shape);
void CheckWriteKv(const TensorView& k, const TensorView& v, const AttentionBatch& batch,
                  const KvLayer& cache);
void CheckAttention(const TensorView& q, const KvLayer& cache, const AttentionBatch& batch,
                    const TensorView& out);
void CheckScaleRows(const TensorView& x, std::span<const float> scale);
void CheckSelectExperts(const TensorView& logits, int64_t count, std::span<const int32_t> experts,
                        std::span<const float> shares);
void CheckGatherRows(const TensorView& in, std::span<const int32_t> rows, const TensorView& out);
void CheckSumRows(const TensorView& in, std::span<const int32_t> rows,
                  std::span<const float> weights, const TensorView& out);
void CheckPick(const TensorView& logits, std::span<const int32_t> ids, std::span<float> out);
// Every view that has memory lies on the backend's device.
void CheckDevice(const char* operation, Device backend,
                 std::initializer_list<const TensorView*> views);
void CheckDevice(const char* operation, Device backend, const KvLayer& cache);
// Convert: each view lies on the backend's device or in host memory, one at least on the former.
void CheckConvertDevices(Device backend, const TensorView& in, const TensorView& out);
void CheckAdjustLogits(const TensorView& logits, std::span<const LogitAdjustment> adjustments);
void CheckMaskLogits(const TensorView& logits, std::span<const int32_t> rows,
                     std::span<const uint32_t> masks);

}  // namespace tutti::kernels
