#include "transport/frame_rules.h"

#include <google/protobuf/io/coded_stream.h>

#include "absl/strings/str_cat.h"
#include "transport/limits.h"

namespace tutti::transport {

int64_t EncodedFrameBytes(const v1::Frame& frame, int64_t payload_bytes) {
  const int64_t message = static_cast<int64_t>(frame.ByteSizeLong()) + kChecksumFieldBytes;
  if (payload_bytes == 0) return message;
  const auto length_bytes = static_cast<int64_t>(
      google::protobuf::io::CodedOutputStream::VarintSize64(static_cast<uint64_t>(payload_bytes)));
  return message + 1 + length_bytes + payload_bytes;
}

absl::Status CheckFrame(const v1::Frame& frame, const Payload& payload) {
  if (!frame.payload().empty()) {
    return absl::InvalidArgumentError(
        "frame: payload bytes belong into the Payload, not into the message");
  }
  if (frame.checksum() != 0) {
    return absl::InvalidArgumentError("frame: its checksum is written by the transport");
  }
  const int64_t payload_bytes = payload.size();
  if (payload_bytes > kPayloadBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("frame ", BodyName(frame), ": payload of ",
                                                   payload_bytes, " bytes, at most ",
                                                   kPayloadBytesMax));
  }
  const auto message_bytes = static_cast<int64_t>(frame.ByteSizeLong());
  if (message_bytes > kMessageBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("frame ", BodyName(frame), ": message of ",
                                                   message_bytes, " bytes, at most ",
                                                   kMessageBytesMax));
  }
  if (frame.body_case() == v1::Frame::kFailure && payload_bytes > 0) {
    return absl::InvalidArgumentError("frame: a failure carries no payload");
  }
  return absl::OkStatus();
}

std::string BodyName(const v1::Frame& frame) {
  const auto* const field = v1::Frame::descriptor()->FindFieldByNumber(frame.body_case());
  return field == nullptr ? "empty" : std::string(field->name());
}

absl::Status CloseReason(const absl::Status& reason) {
  return absl::Status(reason.code(), reason.message().substr(0, kCloseMessageBytesMax));
}

}  // namespace tutti::transport
