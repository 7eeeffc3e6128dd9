#include "transport/frame_checksum.h"

#include "absl/strings/str_format.h"
#include "proto/peer_messages.h"
#include "transport/crc32c.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

// As protobuf writes them: the tag of a fixed32 in two bytes, the value from its lowest byte on.
constexpr uint32_t kTag = v1::Frame::kChecksumFieldNumber << 3 | 5;
static_assert(kTag >= 1 << 7 && kTag < 1 << 14, "the tag must have two bytes");
constexpr uint8_t kTagBytes[] = {(kTag & 0x7f) | 0x80, kTag >> 7};
static_assert(kChecksumFieldBytes == sizeof(kTagBytes) + 4);

}  // namespace

uint8_t* WriteChecksum(const uint8_t* begin, uint8_t* end) {
  const uint32_t checksum = Crc32c(std::as_bytes(std::span<const uint8_t>(begin, end)));
  for (const uint8_t byte : kTagBytes) *end++ = byte;
  for (int shift = 0; shift < 32; shift += 8) *end++ = static_cast<uint8_t>(checksum >> shift);
  return end;
}

absl::StatusOr<std::span<const std::byte>> CheckChecksum(std::span<const std::byte> message) {
  const auto field_bytes = static_cast<size_t>(kChecksumFieldBytes);
  if (message.size() < field_bytes) return absl::DataLossError("frame: it has no checksum");
  const std::span<const std::byte> summed = message.first(message.size() - field_bytes);
  const std::byte* at = summed.data() + summed.size();
  for (const uint8_t byte : kTagBytes) {
    if (*at++ != std::byte{byte}) return absl::DataLossError("frame: it has no checksum");
  }
  uint32_t written = 0;
  for (int shift = 0; shift < 32; shift += 8) written |= static_cast<uint32_t>(*at++) << shift;
  const uint32_t checksum = Crc32c(summed);
  if (checksum == written) return summed;
  return absl::DataLossError(
      absl::StrFormat("frame: the checksum of its %d bytes is %08x, the sender wrote %08x",
                      summed.size(), checksum, written));
}

}  // namespace tutti::transport
