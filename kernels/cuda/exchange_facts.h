// The facts that GPUs tell each other before they form a group, and the verdict that all of them
// come to: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/nccl.h"
#include "kernels/device_membership.h"

namespace tutti::kernels::cuda {

// Equal for processes that share a kernel and a network namespace: they reach each other over
// loopback.
using MachineKey = std::array<uint64_t, 3>;
MachineKey ThisMachine();

struct ExchangeFacts {
  DeviceExchangeScope scope = DeviceExchangeScope::kOff;
  int32_t nccl_version = 0;  // 0: none can be opened
  MachineKey machine = {};
  std::array<std::byte, 16> device = {};  // CUDA's UUID of the GPU
  bool founded = false;                   // `group` is meant
  NcclGroupId group = {};
};

inline constexpr int64_t kExchangeFactsBytes = 192;
// REQUIRES: to.size() == kExchangeFactsBytes
void WriteFacts(const ExchangeFacts& facts, std::span<std::byte> to);
// INVALID_ARGUMENT for bytes that WriteFacts does not write.  REQUIRES: as above
absl::StatusOr<ExchangeFacts> ReadFacts(std::span<const std::byte> from);

// "" when GPUs with these facts can form a group; else why not. Whether one of them has founded it
// is not asked.  REQUIRES: a name for each
std::string WhyNoGroup(std::span<const ExchangeFacts> members, std::span<const std::string> names);

}  // namespace tutti::kernels::cuda
