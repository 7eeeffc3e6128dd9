#include "base/ip_network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tutti {
namespace {

constexpr size_t kV4Bytes = 4;
constexpr int kV4Bits = 32, kV6Bits = 128;
// The first bytes of an IPv4 address in IPv6.
constexpr uint8_t kMapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
// RFC 1918, RFC 6598 (carriers and clouds), RFC 4193, and this machine.
constexpr const char* kPrivateNetworks[] = {"127.0.0.0/8",    "10.0.0.0/8",    "172.16.0.0/12",
                                            "192.168.0.0/16", "100.64.0.0/10", "::1/128",
                                            "fc00::/7"};

absl::Status InvalidNetwork(std::string_view text, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", absl::CHexEscape(std::string(text.substr(0, 64))), "\" ", std::string(what)));
}

// The address with all bits behind the first `bits` cleared.
IpAddress FirstOf(IpAddress address, int bits) {
  for (size_t i = 0; i < address.bytes.size(); ++i) {
    const int kept = std::clamp(bits - static_cast<int>(i) * 8, 0, 8);
    address.bytes[i] = static_cast<uint8_t>(address.bytes[i] & (0xff00 >> kept));
  }
  return address;
}

}  // namespace

std::optional<IpAddress> IpAddress::Parse(std::string_view text) {
  const std::string whole(text);
  // inet_pton would stop there.
  if (whole.size() != std::strlen(whole.c_str())) return std::nullopt;
  IpAddress address;
  if (inet_pton(AF_INET, whole.c_str(), address.bytes.data()) == 1) return address;
  if (inet_pton(AF_INET6, whole.c_str(), address.bytes.data()) != 1) return std::nullopt;
  address.is_v6 = true;
  if (std::equal(std::begin(kMapped), std::end(kMapped), address.bytes.begin())) {
    IpAddress v4;
    std::copy_n(address.bytes.begin() + sizeof(kMapped), kV4Bytes, v4.bytes.begin());
    return v4;
  }
  return address;
}

std::string IpAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = {};
  CHECK(inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes.data(), text, sizeof(text)) != nullptr);
  return text;
}

bool IpAddress::IsOneMachines() const {
  if (std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; })) return false;
  if (is_v6) return bytes[0] != 0xff;
  // 0.0.0.0/8 is this network; from 224.0.0.0 on are multicast and what is reserved.
  return bytes[0] != 0 && bytes[0] < 224;
}

absl::StatusOr<IpNetwork> IpNetwork::Parse(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<IpAddress> address = IpAddress::Parse(text.substr(0, slash));
  if (!address.has_value()) {
    return InvalidNetwork(text, "is no network; write one as 10.0.0.0/8 or fd00::/8");
  }
  const int bits_max = address->is_v6 ? kV6Bits : kV4Bits;
  int bits = bits_max;
  if (slash != std::string_view::npos) {
    const std::string number(text.substr(slash + 1));
    const bool is_number = !number.empty() && number.size() <= 3 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || !absl::SimpleAtoi(number, &bits) || bits > bits_max) {
      return InvalidNetwork(
          text, absl::StrCat("has no number of bits from 0 to ", bits_max, " behind its slash"));
    }
  }
  const IpNetwork network(FirstOf(*address, bits), bits);
  if (network.first_ != *address) {
    return InvalidNetwork(
        text, absl::StrCat("has bits behind the first ", bits, "; write ", network.ToString()));
  }
  return network;
}

bool IpNetwork::Contains(const IpAddress& address) const {
  return address.is_v6 == first_.is_v6 && FirstOf(address, bits_) == first_;
}

std::string IpNetwork::ToString() const { return absl::StrCat(first_.ToString(), "/", bits_); }

std::optional<IpNetwork> PrivateNetworkOf(const IpAddress& address) {
  for (const char* const text : kPrivateNetworks) {
    const absl::StatusOr<IpNetwork> network = IpNetwork::Parse(text);
    CHECK(network.ok()) << text;
    if (network->Contains(address)) return *network;
  }
  return std::nullopt;
}

}  // namespace tutti
