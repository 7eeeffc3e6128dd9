// The exchange of kernels/device_exchange.h over NCCL, which only moves values: TreeSum adds them.
//
// NCCL's calls may wait for other ranks without end. So a group is formed on a thread of its own,
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
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/exchange_facts.h"
#include "kernels/cuda/exchange_parts.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/runtime.h"
#include "kernels/device_exchange.h"

namespace tutti::kernels::cuda {

// A further queue of the same device.
using RuntimeOpener = std::function<absl::StatusOr<std::unique_ptr<Runtime>>()>;

class NcclExchange : public DeviceExchange {
 public:
  struct Options {
    int32_t device_index = 0;
    std::array<std::byte, 16> device_id = {};  // CUDA's UUID
    MachineKey machine = {};
    NcclOpener open_nccl;
    RuntimeOpener open_runtime;  // for the thread that forms a group
    // A call puts work into a queue, which takes microseconds. Below the shortest lease, so that a
    // worker stuck in one still says so itself.
    Duration call_patience = std::chrono::milliseconds(1000);
  };

  // REQUIRES: the runtime outlives this
  NcclExchange(Runtime* runtime, Options options);
  ~NcclExchange() override;

  int64_t description_bytes() const override { return kExchangeFactsBytes; }
  absl::Status Describe(DeviceExchangeScope scope, bool founder, std::span<std::byte> to) override;
  std::string WhyNot(std::span<const std::byte> descriptions) const override;
  absl::Status Form(std::span<const std::byte> descriptions, int ranks, int rank) override;
  absl::StatusOr<bool> Formed() override;
  void Leave() override;
  absl::StatusOr<int64_t> Reserve() override;
  absl::Status Sum(TensorView x) override;
  absl::Status Gather(TensorView x, std::span<const int64_t> begin) override;
  absl::StatusOr<bool> Settled() override;

 private:
  class Attempt;

  // What opening NCCL came to; tried once.
  const absl::StatusOr<std::shared_ptr<Nccl>>& Library();
  absl::Status Call(const char* name, const std::function<absl::Status()>& call);
  absl::Status SumWhole(float* x, int64_t count);
  absl::Status SumByParts(float* x, int64_t count);
  void AddUp(float* x, int64_t slot, Part part);

  Runtime* const runtime_;
  const Options options_;
  std::optional<absl::StatusOr<std::shared_ptr<Nccl>>> library_;
  WorkSpace work_{runtime_};  // other ranks' values

  std::shared_ptr<Attempt> attempt_;  // also one that was left and has not ended
  std::unique_ptr<CallWatchdog> watchdog_;
  std::shared_ptr<NcclGroup> group_;  // null: none, or not yet
  absl::Status broken_;               // why the group is of no use any more
  int ranks_ = 0;
  int rank_ = 0;
};

}  // namespace tutti::kernels::cuda
