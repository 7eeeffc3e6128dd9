#include "transport/announced_address.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "transport/limits.h"

namespace tutti::transport {
namespace {

constexpr size_t kQuotedBytes = 64;

absl::Status Invalid(std::string_view text, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the announced address \"", absl::CHexEscape(std::string(text.substr(0, kQuotedBytes))),
      text.size() > kQuotedBytes ? "…" : "", "\" ", what));
}

bool IsLabel(std::string_view label) {
  return !label.empty() && label.size() <= kHostLabelBytesMax && label.front() != '-' &&
         label.back() != '-' && std::all_of(label.begin(), label.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-';
         });
}

// As resolvers read it: in decimals, or in hexadecimal digits after 0x.
bool IsNumeric(std::string_view label) {
  const bool is_hex = label.size() >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X');
  return is_hex || std::all_of(label.begin(), label.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c));
         });
}

absl::StatusOr<uint16_t> ParsePort(std::string_view text, std::string_view port) {
  uint32_t number = 0;
  const bool is_number = !port.empty() && port.size() <= 5 && port.front() != '0' &&
                         port.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_number || !absl::SimpleAtoi(std::string(port), &number) || number > UINT16_MAX) {
    return Invalid(text, "has no port from 1 to 65535 at its end");
  }
  return static_cast<uint16_t>(number);
}

}  // namespace

std::string AnnouncedAddress::ToString() const {
  if (!ip.has_value()) return absl::StrCat(name, ":", port);
  return ip->is_v6 ? absl::StrCat("[", ip->ToString(), "]:", port)
                   : absl::StrCat(ip->ToString(), ":", port);
}

std::string AnnouncedAddress::ToTarget() const {
  return ip.has_value() ? ToString() : absl::StrCat("dns:///", ToString());
}

bool IsHostName(std::string_view text) {
  if (text.empty() || text.size() > kHostNameBytesMax) return false;
  const std::string whole(text);
  const std::vector<std::string> labels = absl::StrSplit(whole, '.');
  return std::all_of(labels.begin(), labels.end(), IsLabel) && !IsNumeric(labels.back());
}

absl::StatusOr<AnnouncedAddress> ParseAnnouncedAddress(std::string_view text) {
  if (text.size() > kAnnouncedAddressBytesMax) {
    return Invalid(text, absl::StrCat("has ", text.size(), " bytes, and at most ",
                                      kAnnouncedAddressBytesMax, " are taken"));
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Invalid(text, "is not of the form HOST:PORT");
  std::string_view host = text.substr(0, colon);
  AnnouncedAddress address;
  TUTTI_ASSIGN_OR_RETURN(address.port, ParsePort(text, text.substr(colon + 1)));
  const bool in_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  address.ip = IpAddress::Parse(host);
  if (!address.ip.has_value()) {
    if (in_brackets || !IsHostName(host)) return Invalid(text, "names no host");
    address.name = absl::AsciiStrToLower(std::string(host));
    return address;
  }
  // Brackets are IPv6's, also where an IPv4 address is meant.
  if (in_brackets != (host.find(':') != std::string_view::npos)) {
    return Invalid(text, "is not of the form HOST:PORT or [IPV6]:PORT");
  }
  if (address.ip->IsLinkLocalV6()) {
    return Invalid(text,
                   "is one of a single interface (fe80::/10), which other machines cannot "
                   "dial; announce another (--advertise)");
  }
  if (!address.ip->IsOneMachines()) return Invalid(text, "is not the address of one machine");
  return address;
}

}  // namespace tutti::transport
