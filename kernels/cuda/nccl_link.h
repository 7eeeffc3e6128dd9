// The link of kernels/device_link.h over NCCL: a group of two, and a queue of its own.
#pragma once

#include <cstdint>
#include <deque>

#include "kernels/cuda/nccl_membership.h"
#include "kernels/device_link.h"

namespace tutti::kernels::cuda {

class NcclLink : public DeviceLink {
 public:
  explicit NcclLink(NcclOptions options);

  DeviceMembership* membership() override { return &membership_; }
  absl::Status Send(const std::byte* from, int64_t bytes) override;
  absl::Status Receive(std::byte* to, int64_t bytes) override;
  absl::StatusOr<int64_t> Done() override;

 private:
  absl::Status Queue(const char* name, const std::function<absl::Status(NcclGroup*)>& transfer);
  // Forgets the transfers of an earlier group.
  void Follow();

  NcclMembership membership_;
  int64_t group_number_ = 0;    // whose transfers are counted
  std::deque<uint64_t> marks_;  // where each transfer that is under way ends in the queue
  int64_t done_ = 0;
};

}  // namespace tutti::kernels::cuda
