// How a dialer says why it closes: HTTP/2 gives only the serving end a status to send.
//
// The last frame is a `failure` with a payload, which no user of a Link can send (frame_rules.h):
// one byte of status code, the message, and the CRC-32C of both. It is always sent, for OK as well,
// so a stream that ends without it was cut off.
//
// Thread: any.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "base/status.h"
#include "transport/link.h"

namespace tutti::transport {

grpc::ByteBuffer EncodeCloseFrame(const absl::Status& reason);

// Nothing when this is any other frame. A code we do not know is UNKNOWN,
// damaged bytes are DATA_LOSS.
std::optional<absl::Status> ReadCloseFrame(const v1::Frame& frame, const Payload& payload);

}  // namespace tutti::transport
