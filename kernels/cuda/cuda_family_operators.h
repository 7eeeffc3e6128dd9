// The operators of kernels/family_operators.h on a GPU. SelectExperts waits for its answer, the
// others are queued.
//
// Thread: the backend's.
#pragma once

#include <vector>

#include "kernels/cuda/device_memory.h"
#include "kernels/family_operators.h"
#include "kernels/gpu_memory.h"

namespace tutti::kernels::cuda {

class CudaFamilyOperators : public FamilyOperators {
 public:
  // REQUIRES: the runtime outlives it.
  CudaFamilyOperators(LaunchQueue* runtime, Device device) : runtime_(runtime), device_(device) {}

  // As Backend::Reserve and GiveBack, for these operators.
  absl::Status Reserve(const GpuWorkBytes& work, const GpuArrayBytes& arrays);
  void GiveBack();
  int64_t bytes() const;

  void ScaleRows(TensorView x, std::span<const float> scale) override;
  void SelectExperts(TensorView logits, int64_t count, bool normalise, std::span<int32_t> experts,
                     std::span<float> shares) override;
  void GatherRows(TensorView in, std::span<const int32_t> rows, TensorView out) override;
  void SumRows(TensorView in, std::span<const int32_t> rows, std::span<const float> weights,
               TensorView out) override;

 private:
  LaunchQueue* const runtime_;
  const Device device_;
  Uploads scales_{runtime_}, gathered_{runtime_}, summed_{runtime_}, weights_{runtime_};
  WorkSpace choice_{runtime_};
  std::vector<char> answer_;  // choice_, on the host
};

}  // namespace tutti::kernels::cuda
