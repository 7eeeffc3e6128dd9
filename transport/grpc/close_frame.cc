#include "transport/grpc/close_frame.h"

#include <algorithm>
#include <span>
#include <string>

#include "transport/crc32c.h"
#include "transport/frame_rules.h"
#include "transport/grpc/frame_codec.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr size_t kChecksumBytes = 4;
constexpr size_t kReasonBytesMax = 1 + static_cast<size_t>(kCloseMessageBytesMax) + kChecksumBytes;

// False when the last bytes are no checksum of those before them, of which there is at least one.
bool RemoveChecksum(std::string* bytes) {
  if (bytes->size() <= kChecksumBytes || bytes->size() > kReasonBytesMax) return false;
  const size_t size = bytes->size() - kChecksumBytes;
  uint32_t written = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    written |= uint32_t{static_cast<unsigned char>((*bytes)[size + i])} << (8 * i);
  }
  bytes->resize(size);
  return written == Crc32c(std::as_bytes(std::span(*bytes)));
}

}  // namespace

grpc::ByteBuffer EncodeCloseFrame(const absl::Status& reason) {
  const absl::Status sent = CloseReason(reason);
  auto bytes = std::make_shared<std::string>(1, static_cast<char>(sent.code()));
  bytes->append(sent.message().data(), sent.message().size());
  const uint32_t checksum = Crc32c(std::as_bytes(std::span(*bytes)));
  for (int shift = 0; shift < 32; shift += 8)
    bytes->push_back(static_cast<char>(checksum >> shift));
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
    const size_t room = kReasonBytesMax + 1 - bytes.size();
    const auto part = chunk.first(std::min(chunk.size(), room));
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  if (!RemoveChecksum(&bytes)) {
    return absl::DataLossError("the peer closed the link, and its reason was damaged on the way");
  }
  const auto code = static_cast<unsigned char>(bytes[0]);
  if (code == 0) return absl::OkStatus();
  const bool is_known = code <= static_cast<unsigned char>(absl::StatusCode::kUnauthenticated);
  return absl::Status(is_known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      absl::string_view(bytes).substr(1));
}

}  // namespace tutti::transport
