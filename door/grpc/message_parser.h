// Parses a client's message and, when that fails, reports the error.
//
// gRPC's own answer to bytes that do not parse, or to a string that is not UTF-8, is an empty
// status. Ours names the field.
//
// Thread: any.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "base/status.h"

namespace tutti::door {

// INVALID_ARGUMENT: "text: invalid UTF-8 at byte 12", or that the bytes are no such message, or
// that it has more than kRequestFieldsMax fields, which is found before anything is built.
absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

}  // namespace tutti::door
