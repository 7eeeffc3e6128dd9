// Rules for frames on any link, over any transport.  Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "transport/link.h"

namespace tutti::transport {

// Size of the frame as an encoded protobuf message with `payload_bytes` bytes in its payload field.
int64_t EncodedFrameBytes(const v1::Frame& frame, int64_t payload_bytes);

// INVALID_ARGUMENT when a frame may not be sent: bytes in frame.payload instead of the Payload,
// message or payload beyond limits.h, or a payload on a `failure` frame, which links use among
// themselves to say why they close.
absl::Status CheckFrame(const v1::Frame& frame, const Payload& payload);

// The kind of a frame by the name of its field in peer.proto, such as "step_plan"; "empty" without
// a body. For messages to people.
std::string BodyName(const v1::Frame& frame);

// `reason` as a peer gets to see it: a code it knows, the message cut to kCloseMessageBytesMax.
absl::Status CloseReason(const absl::Status& reason);

}  // namespace tutti::transport
