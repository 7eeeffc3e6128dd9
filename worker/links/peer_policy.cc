#include "worker/links/peer_policy.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "worker/limits.h"

namespace tutti::worker {
namespace {

// Whether `text` matches, where each "*" stands for any run without a dot.
bool Matches(std::string_view text, std::string_view pattern) {
  // Where to go on when what follows the last "*" does not match: one more byte is the star's.
  size_t at = 0, star = std::string_view::npos, star_text = 0;
  size_t next = 0;
  while (at < text.size()) {
    if (next < pattern.size() && pattern[next] == '*') {
      star = next++;
      star_text = at;
    } else if (next < pattern.size() && pattern[next] == text[at]) {
      ++next;
      ++at;
    } else if (star != std::string_view::npos && text[star_text] != '.') {
      at = ++star_text;
      next = star + 1;
    } else {
      return false;
    }
  }
  while (next < pattern.size() && pattern[next] == '*') ++next;
  return next == pattern.size();
}

}  // namespace

absl::Status PeerPolicy::AddNetwork(std::string_view text) {
  if (networks_.size() >= kPeerRulesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kPeerRulesMax, " networks"));
  }
  TUTTI_ASSIGN_OR_RETURN(const IpNetwork network, IpNetwork::Parse(text));
  networks_.push_back(network);
  return absl::OkStatus();
}

absl::Status PeerPolicy::AddName(std::string_view pattern) {
  const std::string name = absl::AsciiStrToLower(std::string(pattern));
  if (names_.size() >= kPeerRulesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kPeerRulesMax, " names"));
  }
  // A star is as good as a letter.
  const bool is_name = transport::IsHostName(absl::StrReplaceAll(name, {{"*", "x"}}));
  const bool says_something = std::any_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c));
  });
  if (is_name && says_something) {
    names_.push_back(name);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(name.substr(0, 64)),
                   "\" is no pattern of hosts' names; write one as *.workers.svc"));
}

PeerPolicy PeerPolicy::Around(const transport::AnnouncedAddress& own) {
  PeerPolicy policy;
  if (own.ip.has_value()) {
    const std::optional<IpNetwork> network = PrivateNetworkOf(*own.ip);
    policy.networks_.push_back(network.has_value() ? *network
                                                   : *IpNetwork::Parse(own.ip->ToString()));
    return policy;
  }
  const size_t dot = own.name.find('.');
  if (dot == std::string::npos || own.name.find('.', dot + 1) == std::string::npos) return policy;
  policy.names_.push_back("*" + own.name.substr(dot));
  return policy;
}

absl::Status PeerPolicy::Check(const transport::AnnouncedAddress& address) const {
  const bool allowed =
      address.ip.has_value()
          ? std::any_of(networks_.begin(), networks_.end(),
                        [&](const IpNetwork& one) { return one.Contains(*address.ip); })
          : std::any_of(names_.begin(), names_.end(),
                        [&](const std::string& pattern) { return Matches(address.name, pattern); });
  if (allowed) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      address.ToString(), ", which this worker may not dial (it may: ", ToString(), ")"));
}

std::string PeerPolicy::ToString() const {
  std::vector<std::string> all;
  for (const IpNetwork& network : networks_) all.push_back(network.ToString());
  all.insert(all.end(), names_.begin(), names_.end());
  return all.empty() ? "nothing" : absl::StrJoin(all, ", ");
}

}  // namespace tutti::worker
