// The version of the messages between our processes (proto/tutti/v1/peer.proto).
#pragma once

#include <cstdint>

namespace tutti {

// Grows with every change of peer.proto that an older process would misread. Both ends must have
// the same.
inline constexpr uint32_t kPeerProtocolVersion = 3;

}  // namespace tutti
