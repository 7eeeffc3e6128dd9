// Support for tests that write frames by hand.
#pragma once

#include <span>
#include <string>

#include "transport/frame_checksum.h"
#include "transport/grpc/frame_scan.h"
#include "transport/limits.h"

namespace tutti::transport {

// An encoded frame with its checksum put where it belongs; bytes that are no frame, as they are.
inline std::string Sealed(const std::string& encoded) {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(encoded))};
  const auto layout = ScanFrame(pieces);
  if (!layout.ok()) return encoded;
  const auto message_bytes = static_cast<size_t>(layout->message_bytes);
  std::string sealed = encoded.substr(0, message_bytes);
  sealed.resize(message_bytes + static_cast<size_t>(kChecksumFieldBytes));
  auto* const begin = reinterpret_cast<uint8_t*>(sealed.data());
  WriteChecksum(begin, begin + message_bytes);
  return sealed + encoded.substr(message_bytes);
}

}  // namespace tutti::transport
