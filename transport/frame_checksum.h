// The last field of a frame before its payload: a checksum of all bytes before it (peer.proto,
// Frame.checksum). The payload has one of its own in its message.
//
// It stands at a fixed place, the end of the message, so a flipped bit can neither move it nor turn
// it into another field.  Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace tutti::transport {

// Writes the field behind the message [begin, end); the end of the field.
// REQUIRES: room for kChecksumFieldBytes
uint8_t* WriteChecksum(const uint8_t* begin, uint8_t* end);

// The bytes of `message` before its checksum. DATA_LOSS when there is none or it is not theirs.
absl::StatusOr<std::span<const std::byte>> CheckChecksum(std::span<const std::byte> message);

}  // namespace tutti::transport
