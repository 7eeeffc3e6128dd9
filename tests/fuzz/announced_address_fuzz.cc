// The address that a worker announces, and a second one as the operator's pattern or network: what
// is taken is short, is written in one way, and is allowed by nothing but its own operator's words.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "transport/announced_address.h"
#include "transport/limits.h"
#include "worker/links/peer_policy.h"

namespace {

using tutti::transport::AnnouncedAddress;
using tutti::transport::ParseAnnouncedAddress;
using tutti::worker::PeerPolicy;

void CheckTaken(const AnnouncedAddress& address) {
  const std::string text = address.ToString();
  CHECK(text.size() <= tutti::transport::kAnnouncedAddressBytesMax && address.port != 0);
  CHECK(std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; }));
  CHECK(text.find_first_of("/%@ ") == std::string::npos);
  const auto again = ParseAnnouncedAddress(text);
  CHECK(again.ok() && *again == address);
  CHECK(address.ip.has_value() != !address.name.empty());
  CHECK(address.ip.has_value() || address.ToTarget().starts_with("dns:///"));
}

// Without a word of the operator a worker dials its own kind only.
void CheckDefault(const AnnouncedAddress& own, const AnnouncedAddress& other) {
  const PeerPolicy policy = PeerPolicy::Around(own);
  if (!policy.Check(other).ok()) return;
  CHECK(own.ip.has_value() == other.ip.has_value());
  if (!own.ip.has_value()) return;
  CHECK(own.ip->is_v6 == other.ip->is_v6);
  CHECK(PrivateNetworkOf(*own.ip) == PrivateNetworkOf(*other.ip) || own.ip == other.ip);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\n'), input.size());
  const std::string_view first = input.substr(0, cut);
  const std::string_view second = input.substr(std::min(cut + 1, input.size()));
  const auto address = ParseAnnouncedAddress(first);
  if (!address.ok()) CHECK(address.status().message().size() < 600);
  if (address.ok()) CheckTaken(*address);
  PeerPolicy policy;
  const bool has_network = policy.AddNetwork(second).ok();
  const bool has_name = policy.AddName(second).ok();
  if (!address.ok()) return 0;
  if (policy.Check(*address).ok()) CHECK(address->ip.has_value() ? has_network : has_name);
  if (const auto own = ParseAnnouncedAddress(second); own.ok()) CheckDefault(*own, *address);
  return 0;
}
