// The version of the messages between our processes (proto/tutti/peer/v1/).
#pragma once

#include <cstdint>

namespace tutti {

// Grows with every change of them that an older process would misread. Both ends must have
// the same.
inline constexpr uint32_t kPeerProtocolVersion = 3;

}  // namespace tutti
