// Membership in a group of NCCL's: facts, founding, joining, and calls with deadlines.
//
// NCCL's calls may wait for other members without end. So a group is formed on a thread of its own,
// which also makes the connections that NCCL leaves for the first operation, and every later call
// has a deadline at which the group is given up (ncclCommAbort).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "kernels/cuda/call_watchdog.h"
#include "kernels/cuda/exchange_facts.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/runtime.h"
#include "kernels/device_membership.h"

namespace tutti::kernels::cuda {

// A further queue of the same device.
using RuntimeOpener = std::function<absl::StatusOr<std::unique_ptr<Runtime>>()>;

// The facts and functions with which a GPU's groups are made.
struct NcclOptions {
  int32_t device_index = 0;
  std::array<std::byte, 16> device_id = {};  // CUDA's UUID
  MachineKey machine = {};
  NcclOpener open_nccl;
  RuntimeOpener open_runtime;  // for the thread that forms a group, and for links
  // A call puts work into a queue, which takes microseconds. Below the shortest lease, so that a
  // worker stuck in one still says so itself.
  Duration call_patience = std::chrono::milliseconds(1000);
};

class NcclMembership : public DeviceMembership {
 public:
  // Makes the connections that operations will need, and waits for them.
  using Connect =
      std::function<absl::Status(NcclGroup* group, int members, int member, Runtime* runtime)>;

  NcclMembership(NcclOptions options, Connect connect);
  ~NcclMembership() override;

  int64_t description_bytes() const override { return kExchangeFactsBytes; }
  absl::Status Describe(DeviceExchangeScope scope, bool founder, std::span<std::byte> to) override;
  std::string WhyNot(std::span<const std::byte> descriptions,
                     std::span<const std::string> names) const override;
  absl::Status Form(std::span<const std::byte> descriptions, int members, int member) override;
  absl::StatusOr<bool> Formed() override;
  void Leave() override;

  // Of the group that stands, or the last that did: how many have stood before it, and it.
  int64_t group_number() const { return group_number_; }
  int members() const { return members_; }
  int member() const { return member_; }
  // The queue that the group was formed with, idle since.  REQUIRES: the group stands
  Runtime* runtime() { return runtime_.get(); }

  // Runs call(group) with the deadline for calls. After an error every further call has it.
  // REQUIRES: the group stands
  absl::Status Call(const char* name, const std::function<absl::Status(NcclGroup*)>& call);
  // The first error so far, in the background too.  REQUIRES: the group stands
  absl::Status Health();

 private:
  class Attempt;

  // The result of opening NCCL; tried once.
  const absl::StatusOr<std::shared_ptr<Nccl>>& Library();

  const NcclOptions options_;
  const Connect connect_;
  std::optional<absl::StatusOr<std::shared_ptr<Nccl>>> library_;

  std::shared_ptr<Attempt> attempt_;  // also one that was left and has not ended
  std::unique_ptr<CallWatchdog> watchdog_;
  std::unique_ptr<Runtime> runtime_;
  std::shared_ptr<NcclGroup> group_;  // null: none, or not yet
  absl::Status broken_;               // why the group is of no use any more
  int64_t group_number_ = 0;
  int members_ = 0;
  int member_ = 0;
};

}  // namespace tutti::kernels::cuda
