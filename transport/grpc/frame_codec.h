// Frame and payload <-> grpc::ByteBuffer, as an ordinary protobuf message, without copying the
// payload.
//
// The payload is the message's last field. So an encoder writes the small message, then the field's
// tag and length, then hands over the tensor's memory as it lies. Before the payload stands the
// checksum of the message (frame_checksum.h); any protobuf parser reads the same Frame.  Thread:
// any.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "base/status.h"
#include "transport/link.h"

namespace tutti::transport {

// REQUIRES: CheckFrame(frame, payload) is OK. The buffer keeps payload.owner until gRPC has written
// it; payloads of at most kInlinePayloadBytesMax are copied instead and their owner is not kept.
grpc::ByteBuffer EncodeFrame(const v1::Frame& frame, const Payload& payload);

// Decodes the bytes of a peer: every byte is checked, memory is bounded by limits.h. `payload`
// points into the buffer's memory and keeps it; frame->checksum is unset. INVALID_ARGUMENT when the
// bytes are not one Frame with at most one payload, at its end; DATA_LOSS when its checksum is
// missing or wrong.
absl::Status DecodeFrame(const grpc::ByteBuffer& buffer, v1::Frame* frame, Payload* payload);

}  // namespace tutti::transport
