// The version of the messages between our processes (proto/tutti/peer/v1/).
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace tutti {

// Grows with every change of them that an older process would misread. Both ends must have
// the same.
inline constexpr uint32_t kPeerProtocolVersion = 7;

// FAILED_PRECONDITION where the versions of `them` ("the worker") and `us` ("the coordinator")
// differ: names both, says who is older and what to do about it.
absl::Status CheckProtocol(std::string_view them, uint32_t theirs, std::string_view us,
                           uint32_t ours);

}  // namespace tutti
