#include "transport/grpc/close_frame.h"

#include <string>

#include "transport/frame_rules.h"
#include "transport/grpc/frame_codec.h"
#include "transport/limits.h"

namespace tutti::transport {

grpc::ByteBuffer EncodeCloseFrame(const absl::Status& reason) {
  const absl::Status sent = CloseReason(reason);
  auto bytes = std::make_shared<std::string>(1, static_cast<char>(sent.code()));
  bytes->append(sent.message().data(), sent.message().size());
  v1::Frame frame;
  frame.mutable_failure();
  Payload payload;
  payload.chunks.push_back(std::as_bytes(std::span(*bytes)));
  payload.owner = std::move(bytes);
  return EncodeFrame(frame, payload);
}

std::optional<absl::Status> ReadCloseFrame(const v1::Frame& frame, const Payload& payload) {
  if (frame.body_case() != v1::Frame::kFailure || payload.size() == 0) return std::nullopt;
  std::string bytes;
  for (const auto& chunk : payload.chunks) {
    const size_t room = static_cast<size_t>(kCloseMessageBytesMax) + 1 - bytes.size();
    const auto part = chunk.first(std::min(chunk.size(), room));
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  const auto code = static_cast<unsigned char>(bytes[0]);
  if (code == 0) return absl::OkStatus();
  const bool is_known = code <= static_cast<unsigned char>(absl::StatusCode::kUnauthenticated);
  return absl::Status(is_known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      absl::string_view(bytes).substr(1));
}

}  // namespace tutti::transport
