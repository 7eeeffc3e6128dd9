// IP addresses and networks of them, as people write them: 10.0.0.7, fd00::7, 10.0.0.0/8.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti {

struct IpAddress {
  bool is_v6 = false;
  std::array<uint8_t, 16> bytes = {};  // in network order; of IPv4 the first 4, the others are 0

  // Nothing for all but the whole of an address: neither 10.1 nor 0x7f.1 nor fe80::1%eth0. An IPv4
  // address in IPv6 (::ffff:10.0.0.7) is that IPv4 address.
  static std::optional<IpAddress> Parse(std::string_view text);
  // The one way that it is written; of IPv6 without brackets.
  std::string ToString() const;
  // Whether one machine can have it: no multicast, no broadcast, not 0.0.0.0 nor ::.
  bool IsOneMachines() const;
  // fe80::/10: means something together with an interface of this machine only.
  bool IsLinkLocalV6() const { return is_v6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }

  bool operator==(const IpAddress&) const = default;
};

class IpNetwork {
 public:
  // ADDRESS/BITS, or an address alone. INVALID_ARGUMENT quotes the text and says what was perhaps
  // meant, also of an address with bits behind the network's (10.0.0.7/8).
  static absl::StatusOr<IpNetwork> Parse(std::string_view text);

  bool Contains(const IpAddress& address) const;
  std::string ToString() const;

  bool operator==(const IpNetwork&) const = default;

 private:
  IpNetwork(IpAddress first, int bits) : first_(first), bits_(bits) {}

  IpAddress first_;
  int bits_ = 0;
};

// The network of private or loopback addresses that this one is of (of 10.0.0.7: 10.0.0.0/8).
// Nothing for an address of the Internet, and for one that means something on one wire only
// (169.254.0.0/16, where clouds serve their keys, and fe80::/10).
std::optional<IpNetwork> PrivateNetworkOf(const IpAddress& address);

}  // namespace tutti
