// The exchange of kernels/device_exchange.h over NCCL, which only moves values: TreeSum adds them.
#pragma once

#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/exchange_parts.h"
#include "kernels/cuda/nccl_membership.h"
#include "kernels/cuda/runtime.h"
#include "kernels/device_exchange.h"

namespace tutti::kernels::cuda {

class NcclExchange : public DeviceExchange {
 public:
  // REQUIRES: the runtime outlives this
  NcclExchange(Runtime* runtime, NcclOptions options);

  DeviceMembership* membership() override { return &membership_; }
  absl::StatusOr<int64_t> Reserve() override;
  void GiveBack() override { work_.GiveBack(); }
  absl::Status Sum(TensorView x) override;
  absl::Status Gather(TensorView x, std::span<const int64_t> begin) override;
  absl::StatusOr<bool> AllDone() override;

 private:
  absl::Status SumWhole(float* x, int64_t count);
  absl::Status SumByParts(float* x, int64_t count);
  void AddUp(float* x, int64_t slot, Part part);
  int ranks() const { return membership_.members(); }
  int rank() const { return membership_.member(); }

  Runtime* const runtime_;
  NcclMembership membership_;
  WorkSpace work_{runtime_};  // other ranks' values
};

}  // namespace tutti::kernels::cuda
