// The address at which, as a worker says, others reach it (Hello.advertised_address): hostile until
// it is parsed, and dialled only where the dialler's own operator allows it
// (worker/links/peer_policy.h).
//
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ip_network.h"
#include "base/status.h"

namespace tutti::transport {

struct AnnouncedAddress {
  std::optional<IpAddress> ip;  // none: `name`
  std::string name;             // of a host, in small letters
  uint16_t port = 0;

  // "10.0.0.7:50060", "[fd00::7]:50060", "w1.workers.svc:50060"
  std::string ToString() const;
  // The target that gRPC is told to dial: nothing but this host, whatever it is called
  // ("unix:50060" would be a socket).
  std::string ToTarget() const;

  bool operator==(const AnnouncedAddress&) const = default;
};

// Labels of letters, digits and "-", 63 bytes each and kHostNameBytesMax together, of which the
// last is no number: resolvers take 127.1 and 0x7f000001 for addresses.
bool IsHostName(std::string_view text);

// HOST:PORT, with an IPv6 address in brackets, and nothing else: no socket, scheme, zone, space or
// port 0, and no address that more than one machine can have, or that means something on one
// interface only (fe80::/10). INVALID_ARGUMENT quotes it, escaped
// and cut.
absl::StatusOr<AnnouncedAddress> ParseAnnouncedAddress(std::string_view text);

}  // namespace tutti::transport
